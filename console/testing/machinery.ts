import { createHash } from 'node:crypto';
import type { TestEnvironment } from './environment.ts';

const MERGE = 'application/merge-patch+json';
const SYSTEM = 'home-system';

/** Creates an object and then sets its status, as its controller would. */
async function withStatus(
  { policyServer }: TestEnvironment,
  path: string,
  body: { readonly metadata: { readonly name: string } },
  status: object,
): Promise<void> {
  await policyServer.create(path, body);
  const at = `${path}/${body.metadata.name}/status`;
  await policyServer.server.client.call({ method: 'PATCH', path: at, contentType: MERGE, body: { status } });
}

/** A node that accepts pods, without the taint that a new node has until its kubelet is ready. */
export async function node(
  environment: TestEnvironment,
  name: string,
  handlers: readonly string[],
): Promise<void> {
  await withStatus(
    environment,
    '/api/v1/nodes',
    { metadata: { name } },
    {
      nodeInfo: { containerRuntimeVersion: 'containerd://2.1.4', kubeletVersion: 'v1.36.0' },
      runtimeHandlers: handlers.map((handler) => ({ name: handler })),
    },
  );
  await environment.policyServer.server.client.call({
    method: 'PATCH',
    path: `/api/v1/nodes/${name}`,
    contentType: MERGE,
    body: { spec: { taints: null } },
  });
}

/** A Deployment, or a StatefulSet, of which so many of two pods are ready. */
export async function program(
  environment: TestEnvironment,
  [namespace, name]: readonly [string, string],
  readyReplicas: number,
  kind = 'deployments',
): Promise<void> {
  const labels = { app: name, 'app.kubernetes.io/version': '0.2.0' };
  const image = `registry.example/space/${name}:0.2.0@sha256:${createHash('sha256').update(name).digest('hex')}`;
  const since = { type: 'Available', status: 'False', lastTransitionTime: '2026-11-22T20:00:00Z' };
  await withStatus(
    environment,
    `/apis/apps/v1/namespaces/${namespace}/${kind}`,
    {
      metadata: { name, labels },
      spec: {
        replicas: 2,
        ...(kind === 'statefulsets' ? { serviceName: name } : {}),
        selector: { matchLabels: { app: name } },
        template: { metadata: { labels }, spec: { containers: [{ name, image }] } },
      },
    } as never,
    {
      replicas: 2,
      readyReplicas,
      ...(readyReplicas === 0 && kind === 'deployments' ? { conditions: [since] } : {}),
    },
  );
}

/** A probe that has ended on a node, with what it found. */
export async function probe(
  environment: TestEnvironment,
  component: 'sandbox-probe' | 'network-probe',
  node: string,
  found?: string,
): Promise<void> {
  const terminated = {
    exitCode: found === undefined ? 0 : 1,
    finishedAt: '2026-11-22T20:00:00Z',
    ...(found === undefined ? {} : { message: found }),
  };
  await withStatus(
    environment,
    `/api/v1/namespaces/${SYSTEM}/pods`,
    {
      metadata: {
        name: `${component}-${node}`,
        labels: { 'platform.space/component': component },
        annotations: { 'platform.space/node': node },
      },
      spec: { restartPolicy: 'Never', containers: [{ name: 'attester', image: 'registry.test/attester:1' }] },
    } as never,
    {
      phase: found === undefined ? 'Succeeded' : 'Failed',
      containerStatuses: [
        { name: 'attester', state: { terminated }, image: '', imageID: '', ready: false, restartCount: 0 },
      ],
    },
  );
}
