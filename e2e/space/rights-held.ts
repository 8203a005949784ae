/** What each account of a Space may do according to an API server, for the comparison with docs/rights.md. */
import type { KubeObject } from './kube-object.ts';
import { type DocumentedRule, EVERYWHERE, OF_CAPSULES } from './rights-page.ts';

/**
 * Where the rights of accounts are tested: in the Space's namespaces, in a Capsule's, and in one that is not the
 * Space's.
 */
const CAPSULE = 'home-household-0123abcd';
export const PLACES = ['home', 'home-system', 'home-services', CAPSULE, 'beside'] as const;
/** Rights that come from no role: every cluster lets everybody ask about their own rights. */
const EVERYBODY: ReadonlySet<string> = new Set(
  [
    'selfsubjectreviews.authentication.k8s.io',
    'selfsubjectaccessreviews.authorization.k8s.io',
    'selfsubjectrulesreviews.authorization.k8s.io',
  ].map((resource) => `create ${resource}`),
);
/** A person has a role for people in the namespace of the Space. */
const PERSON = 'home/person-';

interface Client {
  call<T>(request: { readonly method: 'POST'; readonly path: string; readonly body: object }): Promise<T>;
}

/** An account, and a client that acts as it. */
export interface Account {
  /** Written as `namespace/name`. */
  readonly name: string;
  readonly client: Client;
}

interface ResourceRule {
  readonly apiGroups?: readonly string[];
  readonly resources?: readonly string[];
  readonly resourceNames?: readonly string[];
  readonly verbs: readonly string[];
}

/** Rights as sentences: `account in place: verb resource.group name`. */
export type Rights = ReadonlySet<string>;

export async function rightsHeldBy(accounts: readonly Account[]): Promise<Rights> {
  const asked = accounts.flatMap((account) => PLACES.map((place) => [account, place] as const));
  const held = await Promise.all(
    asked.map(async ([{ name, client }, namespace]) => {
      const review = await client.call<{ status: { resourceRules: readonly ResourceRule[] } }>({
        method: 'POST',
        path: '/apis/authorization.k8s.io/v1/selfsubjectrulesreviews',
        body: {
          apiVersion: 'authorization.k8s.io/v1',
          kind: 'SelfSubjectRulesReview',
          spec: { namespace },
        },
      });
      return review.status.resourceRules
        .flatMap(({ apiGroups = [], resources = [], resourceNames = [], verbs }) =>
          apiGroups.flatMap((group) => sentences(group, resources, resourceNames, verbs)),
        )
        .filter((right) => !EVERYBODY.has(right))
        .map((right) => `${name} in ${namespace}: ${right}`);
    }),
  );
  return new Set(held.flat());
}

/** The rights that the page lists for these accounts. There is one Capsule, and one person for each role. */
export function documentedRights(rules: readonly DocumentedRule[], accounts: readonly Account[]): Rights {
  const rights = accounts.flatMap(({ name }) =>
    rules.flatMap((rule) => {
      const names = rule.names.map((one) => one.replace('<capsule>', 'household'));
      return placesOf(name, rule).flatMap((place) =>
        sentences(rule.group, rule.resources, names, rule.verbs).map(
          (right) => `${name} in ${place}: ${right}`,
        ),
      );
    }),
  );
  return new Set(rights);
}

function placesOf(account: string, { role, where, heldBy: holders }: DocumentedRule): readonly string[] {
  if (account === `${PERSON}${role}`) return ['home'];
  if (!holders.includes(account)) return [];
  if (where === EVERYWHERE) return PLACES;
  return [where === OF_CAPSULES ? CAPSULE : where];
}

function sentences(
  group: string,
  resources: readonly string[],
  names: readonly string[],
  verbs: readonly string[],
): string[] {
  return resources.flatMap((resource) =>
    verbs.flatMap((verb) => {
      const right = `${verb} ${resource}${group === '' ? '' : `.${group}`}`;
      return names.length === 0 ? [right] : names.map((one) => `${right} ${one}`);
    }),
  );
}

/** The differences: each right that is not listed, and each listed one that is missing. */
export function differencesOf(held: Rights, drawn: Rights): string[] {
  return [
    ...[...held.difference(drawn)].map((right) => `not on the page: ${right}`),
    ...[...drawn.difference(held)].map((right) => `missing: ${right}`),
  ];
}

/** Kinds of objects that grant rights: roles, their bindings, and the accounts. */
const KINDS: Readonly<Record<string, (namespace: string) => string>> = {
  ServiceAccount: (namespace) => `/api/v1/namespaces/${namespace}/serviceaccounts`,
  ClusterRole: () => '/apis/rbac.authorization.k8s.io/v1/clusterroles',
  ClusterRoleBinding: () => '/apis/rbac.authorization.k8s.io/v1/clusterrolebindings',
  Role: (namespace) => `/apis/rbac.authorization.k8s.io/v1/namespaces/${namespace}/roles`,
  RoleBinding: (namespace) => `/apis/rbac.authorization.k8s.io/v1/namespaces/${namespace}/rolebindings`,
};

/** The path of the objects of this kind; undefined if the kind grants no right. */
export const collectionOf = ({ kind, metadata }: KubeObject): string | undefined =>
  KINDS[kind]?.(metadata.namespace ?? 'home');

const bound = (name: string, namespace: string, role: object, subject: object): KubeObject => ({
  apiVersion: 'rbac.authorization.k8s.io/v1',
  kind: 'RoleBinding',
  metadata: { name, namespace },
  roleRef: { apiGroup: 'rbac.authorization.k8s.io', ...role },
  subjects: [{ kind: 'ServiceAccount', ...subject }],
});

/**
 * The objects of the chart, and those that the operator and an administrator add: for one Capsule, and for one person
 * with each role.
 */
export function grantingObjects(rendered: readonly KubeObject[]): readonly KubeObject[] {
  const chart = rendered.filter((object) => collectionOf(object) !== undefined);
  const written = chart.map((object) =>
    object.kind === 'Role' && object['rules'] === undefined
      ? {
          ...object,
          rules: [
            {
              ...{ apiGroups: [''], resources: ['secrets'] },
              ...{ resourceNames: ['capsule-household-objectstore'], verbs: ['get'] },
            },
          ],
        }
      : object,
  );
  const operator = { name: 'home-operator', namespace: 'home-system' };
  const secrets = { kind: 'ClusterRole', name: 'home-capsule-secrets' };
  const people = chart
    .filter(({ kind, metadata: { name } }) => kind === 'ClusterRole' && name.startsWith('home-space-'))
    .flatMap(({ metadata: { name: role } }): KubeObject[] => {
      const name = `${PERSON}${role}`.slice('home/'.length);
      return [
        { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name, namespace: 'home' } },
        bound(name, 'home', { kind: 'ClusterRole', name: role }, { name, namespace: 'home' }),
      ];
    });
  const strangers = PLACES.map(
    (namespace): KubeObject => ({
      apiVersion: 'v1',
      kind: 'ServiceAccount',
      metadata: { name: 'stranger', namespace },
    }),
  );
  return [...written, ...people, ...strangers, bound('space-operator', CAPSULE, secrets, operator)];
}
