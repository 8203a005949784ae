import * as kinds from '../../operator/kinds.ts';
import { pathOf } from '../../operator/runtime/kube-object.ts';
import type { Pod } from '../../operator/testing/program.ts';
import type { TestEnvironment } from '../../operator/testing/test-environment.ts';

/** Returns a kubeconfig with a token of the operator's own ServiceAccount, so that its requests queue like those of a pod. */
export async function serviceAccount({ server }: TestEnvironment, namespace: string): Promise<string> {
  const name = 'operator';
  const accounts = `/api/v1/namespaces/${namespace}/serviceaccounts`;
  const { client } = server;
  await client.call({ method: 'POST', path: accounts, body: { metadata: { name } } });
  await client.call({
    method: 'POST',
    path: '/apis/rbac.authorization.k8s.io/v1/clusterrolebindings',
    body: {
      metadata: { name: `${namespace}-operator` },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'cluster-admin' },
      subjects: [{ kind: 'ServiceAccount', name, namespace }],
    },
  });
  const { status } = await client.call<{ readonly status: { readonly token: string } }>({
    method: 'POST',
    path: `${accounts}/${name}/token`,
    body: { spec: { expirationSeconds: 4 * 3600 } },
  });
  const config = JSON.parse(server.kubeconfig);
  for (const { user } of config.users) user.token = status.token;
  return JSON.stringify(config);
}

/** Creates a pod at the API server, so that a standby cannot see that the process of the pod is dead. */
export async function podOf(
  { server: { client } }: TestEnvironment,
  namespace: string,
  name: string,
): Promise<Pod> {
  const { metadata } = await client.call<kinds.Pod>({
    method: 'POST',
    path: pathOf(kinds.POD, namespace),
    body: { metadata: { name }, spec: { containers: [{ name, image: 'registry.test/operator:1' }] } },
  });
  return { name, uid: metadata.uid ?? '' };
}
