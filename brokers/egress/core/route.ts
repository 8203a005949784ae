import type { METHODS } from '@space/contracts/egress';
import { foldedParameter, parameterReadings } from '@space/manifests';
import type { InputTarget, Parameter } from './target.ts';

export type Method = (typeof METHODS)[number];

/** A route in a manifest. */
export interface Route {
  readonly method: Method;
  readonly path: string;
  readonly query?: readonly { readonly name: string; readonly values: readonly string[] }[] | undefined;
}

/** Decides about a method and a target: the index of the route, or why there is none. */
export type RouteMatch = (method: string, target: InputTarget) => number | 'denied' | 'ambiguous';

interface CompiledRoute {
  readonly method: Method;
  readonly segments: readonly string[];
  readonly selectors: readonly { readonly name: string; readonly values: ReadonlySet<string> }[];
  readonly names: Names;
}

/** Names of query selectors, and their form for the most tolerant server. */
interface Names {
  readonly exact: ReadonlySet<string>;
  readonly folded: ReadonlySet<string>;
}

/** Prepares the decision for all routes of one stored input. HEAD is not GET; `*` is exactly one segment. */
export function compileRoutes(routes: readonly Route[]): RouteMatch {
  const compiled = routes.map(
    ({ method, path, query = [] }): CompiledRoute => ({
      method,
      segments: path.slice(1).split('/'),
      selectors: query.map(({ name, values }) => ({ name, values: new Set(values) })),
      names: namesOf(query),
    }),
  );
  // Whichever route is meant, each parameter that selects a route must occur once, in one spelling.
  const all = namesOf(routes.flatMap(({ query = [] }) => query));

  return (method, target) => {
    const parameters = all.exact.size === 0 ? [] : target.parameters.map(readParameter);
    if (!parameters.every((one) => isOwnOrOther(one, all)) || !isEachOnce(parameters, all))
      return 'ambiguous';
    const fitting = compiled.filter((route) => fits(route, method, target));
    // A parameter that selects another route must not be one that some server takes for this route's.
    const found = fitting.find(({ names }) => parameters.every((one) => isOwnOrOther(one, names)));
    if (found !== undefined) return compiled.indexOf(found);
    return fitting.length > 0 ? 'ambiguous' : 'denied';
  };
}

function namesOf(selectors: readonly { readonly name: string }[]): Names {
  const names = selectors.map(({ name }) => name);
  return { exact: new Set(names), folded: new Set(names.map(foldedParameter)) };
}

/** A parameter with all names under which some server would read it. */
interface ReadParameter {
  readonly name: string;
  readonly readings: readonly string[];
}

const readParameter = ({ name, decoded }: Parameter): ReadParameter => ({
  name,
  readings: parameterReadings(decoded),
});

/** Whether a parameter has exactly one of these names, or is none of them for any server. */
function isOwnOrOther({ name, readings }: ReadParameter, { exact, folded }: Names): boolean {
  return exact.has(name) || !readings.some((reading) => folded.has(reading));
}

/** Whether no two parameters are the same selector in different spellings. */
function isEachOnce(parameters: readonly ReadParameter[], { exact }: Names): boolean {
  const folded = parameters.filter(({ name }) => exact.has(name)).map(({ name }) => foldedParameter(name));
  return new Set(folded).size === folded.length;
}

function fits(route: CompiledRoute, method: string, { segments, parameters }: InputTarget): boolean {
  if (route.method !== method || route.segments.length !== segments.length) return false;
  if (!route.segments.every((segment, index) => segment === '*' || segment === segments[index])) return false;
  return route.selectors.every(({ name, values }) => {
    const found = parameters.find((parameter) => parameter.name === name);
    return found !== undefined && values.has(found.value);
  });
}
