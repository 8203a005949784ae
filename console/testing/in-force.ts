import type { PolicyServer } from '../../e2e/space/testing/policy-server.ts';
import { eventually } from '../../testing/eventually.ts';

interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
  readonly resourceNames?: readonly string[];
}

/** The name of a ServiceAccount as a user. */
export const accountOf = (name: string, namespace: string) => `system:serviceaccount:${namespace}:${name}`;

/** The rules of a role. */
export async function rulesAt({ server }: PolicyServer, path: string): Promise<readonly object[]> {
  const { rules } = await server.client.call<{ rules?: readonly object[] }>({ method: 'GET', path });
  return rules ?? [];
}

/** A right is in force a moment after it was granted: waits until the API server says so of each rule. */
export async function untilInForce(
  { server }: PolicyServer,
  who: { readonly user?: string; readonly groups?: readonly string[] },
  rules: readonly object[],
  namespace: string,
): Promise<void> {
  for (const { apiGroups, resources, verbs, resourceNames } of rules as readonly Rule[]) {
    const [resource, subresource] = (resources[0] ?? '').split('/');
    const resourceAttributes = {
      ...{ namespace, group: apiGroups[0], resource, subresource, verb: verbs[0] },
      name: resourceNames?.[0],
    };
    const body = {
      apiVersion: 'authorization.k8s.io/v1',
      kind: 'SubjectAccessReview',
      spec: { ...who, resourceAttributes },
    };
    const path = '/apis/authorization.k8s.io/v1/subjectaccessreviews';
    await eventually(
      async () =>
        (await server.client.call<{ status: { allowed: boolean } }>({ method: 'POST', path, body })).status
          .allowed,
      { what: `${JSON.stringify(who)} to have ${JSON.stringify(resourceAttributes)}` },
    );
  }
}
