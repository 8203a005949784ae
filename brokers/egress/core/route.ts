import type { METHODS } from '@space/contracts/egress';
import { foldedParameter } from '@space/manifests';
import type { InputTarget, Parameter } from './target.ts';

export type Method = (typeof METHODS)[number];

/** A route as a manifest has it. */
export interface Route {
  readonly method: Method;
  readonly path: string;
  readonly query?: readonly { readonly name: string; readonly values: readonly string[] }[] | undefined;
}

/** Decides for a method and a target; an index into the routes, or why there is none. */
export type RouteMatch = (method: string, target: InputTarget) => number | 'denied' | 'ambiguous';

interface CompiledRoute {
  readonly method: Method;
  readonly segments: readonly string[];
  readonly selectors: readonly Selector[];
}

interface Selector {
  readonly name: string;
  readonly folded: string;
  readonly values: ReadonlySet<string>;
}

/** Prepares the decision for all routes of one stored input. HEAD is not GET; `*` is exactly one segment. */
export function compileRoutes(routes: readonly Route[]): RouteMatch {
  const compiled = routes.map(
    ({ method, path, query = [] }): CompiledRoute => ({
      method,
      segments: path.slice(1).split('/'),
      selectors: query.map(({ name, values }) => ({
        name,
        folded: foldedParameter(name),
        values: new Set(values),
      })),
    }),
  );
  // Whatever route is meant: a parameter by which one is chosen must be there once and in one spelling.
  const names = new Map(
    compiled.flatMap(({ selectors }) => selectors.map(({ folded, name }) => [folded, name])),
  );

  return (method, target) => {
    if (!target.parameters.every((parameter, index) => isPlain(parameter, index, names, target.parameters)))
      return 'ambiguous';
    const index = compiled.findIndex((route) => fits(route, method, target));
    return index < 0 ? 'denied' : index;
  };
}

function isPlain(
  parameter: Parameter,
  index: number,
  names: ReadonlyMap<string, string>,
  all: readonly Parameter[],
): boolean {
  const name = names.get(parameter.folded);
  if (name === undefined) return true;
  return parameter.name === name && all.findIndex(({ folded }) => folded === parameter.folded) === index;
}

function fits(route: CompiledRoute, method: string, { segments, parameters }: InputTarget): boolean {
  if (route.method !== method || route.segments.length !== segments.length) return false;
  if (!route.segments.every((segment, index) => segment === '*' || segment === segments[index])) return false;
  return route.selectors.every(({ folded, values }) => {
    const found = parameters.find((parameter) => parameter.folded === folded);
    return found !== undefined && values.has(found.value);
  });
}
