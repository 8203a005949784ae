/** A Role or ClusterRole, as the API server has it. */
export interface Role {
  readonly metadata: { readonly name: string; readonly namespace?: string };
  readonly rules?: readonly {
    readonly apiGroups: readonly string[];
    readonly resources: readonly string[];
    readonly verbs: readonly string[];
  }[];
}

/** One request of a program, according to the API server's log. */
export interface LoggedRequest {
  /** The program's account, without its Space. */
  readonly account: string;
  /** `role: verb resource.group/subresource`, the role without its Space. */
  readonly right: string;
  readonly decision: string;
}

/** Roles that people use with their own credentials. */
const OF_PEOPLE = /^space-(viewer|deployer|capsule-admin|admin|inputs|runtime|cluster)$/;
const ACCOUNT = /^system:serviceaccount:([a-z0-9-]+)-system:(.+)$/;

/** Each right of a Space's programs. */
export function rightsOf(roles: readonly Role[], space: string): readonly string[] {
  const rights = roles.flatMap(({ metadata, rules = [] }) => {
    const role = nameWithout(space, metadata.name);
    if (OF_PEOPLE.test(role)) return [];
    return rules.flatMap(({ apiGroups, resources, verbs }) =>
      apiGroups.flatMap((group) =>
        resources.flatMap((resource) => {
          const [plural = '', subresource] = resource.split('/');
          return verbs.map((verb) => rightOf(role, verb, plural, group, subresource));
        }),
      ),
    );
  });
  return [...new Set(rights)];
}

/**
 * The requests of the programs themselves, from lines of the API server's log. A person who uses a program's token
 * with `kubectl` is not counted: the suite of insiders tests that. What the console asks as a person who signed in
 * depends on that person's rights, not on its own.
 */
export function requestsIn(log: string): readonly LoggedRequest[] {
  return log.split('\n').flatMap((line) => {
    if (line === '') return [];
    const {
      user,
      impersonatedUser,
      verb,
      userAgent = '',
      objectRef = {},
      annotations = {},
      responseStatus = {},
    } = JSON.parse(line);
    const [, space = '', name = ''] = ACCOUNT.exec(user.username) ?? [];
    const account = nameWithout(space, name);
    if (account === name || userAgent.startsWith('kubectl/') || impersonatedUser !== undefined) return [];
    const { apiGroup = '', resource = '', subresource } = objectRef;
    const [, role = ''] =
      / of (?:Cluster)?Role "([^"]+)"/.exec(annotations['authorization.k8s.io/reason']) ?? [];
    const decision = annotations['authorization.k8s.io/decision'] ?? '';
    const of = (what: string) => ({
      account,
      right: rightOf(nameWithout(space, role), what, resource, apiGroup, subresource),
      decision,
    });
    // Server-side apply is one request that needs both rights.
    const creates = verb === 'patch' && responseStatus.code === 201;
    return creates ? [of(verb), of('create')] : [of(verb)];
  });
}

const nameWithout = (space: string, name: string): string =>
  name.startsWith(`${space}-`) ? name.slice(space.length + 1) : name;

function rightOf(role: string, verb: string, resource: string, group: string, subresource?: string): string {
  return `${role}: ${verb} ${resource}${group && `.${group}`}${subresource ? `/${subresource}` : ''}`;
}

/** Rights for cases that no suite is sure to cause, or that are no request of their own, with the reason. */
export const UNUSED: Readonly<Record<string, string>> = {
  'operator: bind clusterroles.rbac.authorization.k8s.io':
    'asked of the authorizer when a RoleBinding is written',
  'operator: delete rolebindings.rbac.authorization.k8s.io':
    'of one that leads to another role, which the operator is too fast for anybody to plant',
  'operator: get validatingadmissionpolicies.admissionregistration.k8s.io':
    'a policy that is not in the list, since somebody took it or its label away (admission.test.ts)',
  'operator: get validatingadmissionpolicybindings.admissionregistration.k8s.io': 'the same of a binding',
  'operator: get deployments.apps': 'of an Assistant whose finalizer somebody took off (orphans.test.ts)',
  'operator: get services': 'of the same, when its Deployment is gone',
};
