/** The changes of each admission policy of the chart: it, a binding or a rule is removed or narrowed. This file needs no server. */
import type { KubeObject } from '../../../../e2e/space/kube-object.ts';
import { termsOf, without } from './cel.ts';

type Path = readonly (string | number)[];

/** A change of one object; `term` is the index of a term of the existing expression. */
type Edit =
  | { readonly does: 'remove' }
  | { readonly does: 'drop'; readonly path: Path }
  | { readonly does: 'set'; readonly path: Path; readonly value: unknown }
  | { readonly does: 'without'; readonly path: Path; readonly term: number };

export interface Mutant {
  readonly kind: string;
  /** The name without the release's. */
  readonly name: string;
  readonly change: string;
  readonly edit: Edit;
  /** Marks a part of a rule's condition, which is neither a rule nor an exemption itself. */
  readonly fine?: true;
}

interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly operations: readonly string[];
}

interface Named {
  readonly name: string;
  readonly expression: string;
}

interface PolicySpec {
  readonly failurePolicy?: string;
  readonly matchConstraints: {
    readonly namespaceSelector?: Selector;
    readonly resourceRules: readonly Rule[];
  };
  readonly matchConditions?: readonly Named[];
  readonly variables?: readonly Named[];
  readonly validations?: readonly { readonly expression: string }[];
}

interface Selector {
  readonly matchLabels?: Readonly<Record<string, string>>;
  readonly matchExpressions?: readonly { readonly key: string; readonly values?: readonly string[] }[];
}

export const POLICIES: ReadonlySet<string> = new Set([
  'ValidatingAdmissionPolicy',
  'MutatingAdmissionPolicy',
]);
export const BINDINGS: ReadonlySet<string> = new Set([...POLICIES].map((kind) => `${kind}Binding`));
/** Policies that are generated from the manifest's rules, of which each is tried as a whole. */
const GENERATED: ReadonlySet<string> = new Set(['assistants', 'capsules']);
const LONGEST_TOLD = 90;

export const ownName = ({ metadata }: KubeObject): string => metadata.name.replace(/^[a-z0-9]+-/, '');

export function mutantsOf(object: KubeObject): Mutant[] {
  const found = [{ change: 'removed', edit: { does: 'remove' } } as const].concat();
  const edits = POLICIES.has(object.kind)
    ? ofPolicy(object['spec'] as PolicySpec, GENERATED.has(ownName(object)))
    : ofBinding(object['spec']);
  return [...found, ...edits].map((one) => ({ kind: object.kind, name: ownName(object), ...one }));
}

type Change = Pick<Mutant, 'change' | 'edit' | 'fine'>;

const FINE = { fine: true } as const;

function ofPolicy(spec: PolicySpec, generated: boolean): Change[] {
  const { matchConstraints, matchConditions = [], variables = [], validations = [] } = spec;
  const validated = validations.map(({ expression }, i): Change => {
    const path = ['spec', 'validations', i, 'expression'];
    return { change: `allows ${i}: ${told(expression)}`, edit: { does: 'set', path, value: 'true' } };
  });
  const conditions = matchConditions.map(({ name }, i): Change => {
    const path = ['spec', 'matchConditions', i];
    return { change: `without its condition ${name}`, edit: { does: 'drop', path } };
  });
  const whole = [...validated, ...conditions, ...ofRules(matchConstraints.resourceRules)];
  if (generated) return whole;
  const expressions = [
    ...validations.map(({ expression }, i) => ['validations', i, expression] as const),
    ...matchConditions.map(({ expression }, i) => ['matchConditions', i, expression] as const),
    ...variables.map(({ expression }, i) => ['variables', i, expression] as const),
  ];
  return [
    ...whole,
    ...ofSelector(matchConstraints.namespaceSelector, ['spec', 'matchConstraints', 'namespaceSelector']),
    ...expressions.flatMap(([list, i, text]) => ofTerms(text, ['spec', list, i, 'expression'])),
  ];
}

function ofTerms(text: string, path: Path): Change[] {
  return termsOf(text).map(({ joinedBy, start, end }, term): Change => {
    const change = `${String(path[1])} ${path[2]} without ${joinedBy} ${told(text.slice(start, end))}`;
    const isExemption = joinedBy === '||' && path[1] !== 'variables';
    return { change, edit: { does: 'without', path, term }, ...(isExemption ? {} : FINE) };
  });
}

/** Removes each resource and each operation that a policy checks. */
function ofRules(rules: readonly Rule[]): Change[] {
  const at = ['spec', 'matchConstraints', 'resourceRules'];
  return rules.flatMap((rule, i) => [
    ...(['apiGroups', 'resources', 'operations'] as const).flatMap((list) =>
      rule[list].length === 1
        ? []
        : rule[list].map((word, j): Change => {
            const change =
              list === 'resources' ? `ignores ${word}` : `ignores ${rule.resources.join(', ')} (${word})`;
            const edit = { does: 'drop', path: [...at, i, list, j] } as const;
            return { change, edit, ...(list === 'operations' ? FINE : {}) };
          }),
    ),
    ...(rules.length === 1
      ? []
      : [
          {
            change: `ignores ${rule.resources.join(', ')}`,
            edit: { does: 'drop', path: [...at, i] },
          } as const,
        ]),
  ]);
}

function ofBinding(spec: {
  readonly paramRef?: { readonly parameterNotFoundAction: string };
  readonly matchResources?: { readonly namespaceSelector?: Selector };
}): Change[] {
  const { paramRef, matchResources } = spec;
  const action = paramRef?.parameterNotFoundAction === 'Deny' ? 'Allow' : 'Deny';
  const path = ['spec', 'paramRef', 'parameterNotFoundAction'];
  return [
    ...(paramRef === undefined
      ? []
      : [
          {
            change: `if its parameter is missing: ${action}`,
            edit: { does: 'set', path, value: action },
          } as const,
        ]),
    ...ofSelector(matchResources?.namespaceSelector, ['spec', 'matchResources', 'namespaceSelector']),
  ];
}

/** Removes each label of a selector, so that the policy applies to more namespaces, and each name, so that it applies to one less. */
function ofSelector(selector: Selector | undefined, path: Path): Change[] {
  const { matchLabels = {}, matchExpressions = [] } = selector ?? {};
  return [
    ...Object.entries(matchLabels).map(
      ([key, value]): Change => ({
        change: `applies also without ${key}=${value}`,
        edit: { does: 'drop', path: [...path, 'matchLabels', key] },
      }),
    ),
    ...matchExpressions.flatMap(({ key, values = [] }, i): Change[] => [
      {
        change: `applies for any ${key}`,
        edit: { does: 'drop', path: [...path, 'matchExpressions', i] },
      },
      ...(values.length < 2
        ? []
        : values.map(
            (value, j): Change => ({
              change: `does not apply if ${key} is ${value}`,
              edit: { does: 'drop', path: [...path, 'matchExpressions', i, 'values', j] },
            }),
          )),
    ]),
  ];
}

const told = (text: string): string => {
  const line = text.trim().replaceAll(/\s+/g, ' ');
  return line.length > LONGEST_TOLD ? `${line.slice(0, LONGEST_TOLD)}…` : line;
};

/** The object with the change, if the change is of this object; undefined if the object is removed. */
export function changed(object: KubeObject, { kind, name, edit }: Mutant): KubeObject | undefined {
  if (object.kind !== kind || ownName(object) !== name) return object;
  if (edit.does === 'remove') return undefined;
  const copy = structuredClone(object);
  const last = edit.path.at(-1) ?? '';
  const parent = edit.path.slice(0, -1).reduce((at, key) => at[key as 'spec'], copy as KubeObject['spec']);
  if (edit.does === 'set') parent[last] = edit.value;
  else if (edit.does === 'without') {
    const term = termsOf(parent[last])[edit.term];
    if (term === undefined) throw new Error(`${name} has no such term: ${parent[last]}`);
    parent[last] = without(parent[last], term);
  } else if (Array.isArray(parent)) parent.splice(Number(last), 1);
  else delete parent[last];
  return copy;
}
