import type { V1PodTemplateSpec } from '@kubernetes/client-node';
import { isGateway } from '../egress/replicas.ts';
import * as kinds from '../kinds.ts';
import { ANNOTATION, LABEL } from '../names.ts';
import type { ApiClient } from '../runtime/client.ts';
import { systemClock } from '../runtime/clock.ts';
import { runController } from '../runtime/controller.ts';
import { ApiError, isAlreadyExists, isNotFound } from '../runtime/errors.ts';
import { type KubeObject, pathOf, type Resource } from '../runtime/kube-object.ts';
import { Queue } from '../runtime/queue.ts';
import { Reflector } from '../runtime/reflector.ts';
import { Store } from '../runtime/store.ts';
import { ATTESTER, NOT_IN_SANDBOX, WALLS_OPEN } from '../sandbox/attester.ts';
import { isProbe, NETWORK_PROBE, probedNode } from '../sandbox/probe.ts';

/** In the place of an image: what becomes of the pods that try the walls. */
export const WALLS = 'walls';

/** What becomes of an image's containers. */
export type Fate = 'ready' | 'pull-fails' | 'crashes' | 'pending';

/**
 * Stands in for the cluster's own controllers and kubelet, which an API server alone has not: Deployments get pods,
 * pods get the status that their image's fate has, namespaces that are deleted are emptied.
 */
export function startControllers(client: ApiClient, space: string, fateOf: (image: string) => Fate) {
  const ending = new AbortController();
  const queue = new Queue({ clock: systemClock });
  const watch = <T extends KubeObject>(resource: Resource, store: Store<T>) => {
    store.onChange(({ key }) => queue.add(`${resource.kind}:${key}`));
    const labelSelector = `${LABEL.space}=${space}`;
    const reflector = new Reflector<T>({ client, clock: systemClock, resource, store, labelSelector });
    return reflector.run(ending.signal);
  };
  const deployments = new Store<kinds.Deployment>();
  const namespaces = new Store<kinds.Namespace>();
  const pods = new Store<kinds.Pod>();
  const watching = [
    watch(kinds.DEPLOYMENT, deployments),
    watch(kinds.NAMESPACE, namespaces),
    watch(kinds.POD, pods),
  ];

  async function reconcile(key: string): Promise<Record<string, never>> {
    const [kind = '', path = ''] = key.split(':');
    if (kind === 'Namespace') await emptyNamespace(client, namespaces.get(path));
    else await runPods(path.split('/')[0] ?? '');
    return {};
  }

  async function runPods(namespace: string): Promise<void> {
    const mine = <T extends KubeObject>(store: Store<T>) =>
      store.list().filter(({ metadata }) => metadata.namespace === namespace);
    const wanted = new Map<string, V1PodTemplateSpec>();
    for (const { metadata, spec } of mine(deployments)) {
      for (let i = 0; i < (spec?.replicas ?? 1) && spec; i++) {
        const revision = spec.template.metadata?.annotations?.[ANNOTATION.revision] ?? '';
        wanted.set(`${metadata.name}-${revision}-${i}`, spec.template);
      }
    }
    for (const pod of mine(pods)) {
      if (isGateway(pod)) continue;
      if (isProbe(pod)) await endProbe(client, pod, fateOf(imageOf(pod)));
      else if (!wanted.has(pod.metadata.name)) await deletePod(client, pod);
    }
    for (const [name, template] of wanted) {
      const pod = pods.get(`${namespace}/${name}`);
      if (!pod) await createPod(client, namespace, name, template);
      else if (!pod.status?.conditions)
        await setFate(client, pod, fateOf(template.spec?.containers[0]?.image ?? ''));
    }
  }

  const working = runController({ name: 'cluster', queue, workers: 4, deadlineMs: 30_000, reconcile });
  return {
    async stop() {
      queue.close();
      ending.abort();
      await Promise.all([working, ...watching]);
    },
  };
}

async function createPod(client: ApiClient, namespace: string, name: string, template: V1PodTemplateSpec) {
  const { labels, annotations } = template.metadata ?? {};
  const metadata = { name, namespace, labels, annotations };
  await client
    .call({ method: 'POST', path: pathOf(kinds.POD, namespace), body: { metadata, spec: template.spec } })
    .catch((error) => {
      if (!isAlreadyExists(error)) throw error;
    });
}

async function deletePod(client: ApiClient, { metadata }: KubeObject) {
  const path = pathOf(kinds.POD, metadata.namespace, metadata.name);
  await client.call({ method: 'DELETE', path, body: { gracePeriodSeconds: 0 } }).catch((error) => {
    if (!isNotFound(error)) throw error;
  });
}

async function setFate(client: ApiClient, { metadata }: KubeObject, fate: Fate) {
  const state = {
    ready: { running: {} },
    'pull-fails': { waiting: { reason: 'ImagePullBackOff', message: 'Back-off 10s' } },
    crashes: { waiting: { reason: 'CrashLoopBackOff' } },
    pending: { waiting: { reason: 'ContainerCreating' } },
  }[fate];
  const lastState = fate === 'crashes' ? { terminated: { reason: 'Error', exitCode: 3 } } : {};
  const condition = { type: 'Ready', status: fate === 'ready' ? 'True' : 'False' };
  const container = {
    name: 'assistant',
    image: '',
    imageID: '',
    ready: fate === 'ready',
    restartCount: fate === 'crashes' ? 2 : 0,
  };
  await client.call({
    method: 'PATCH',
    path: pathOf(kinds.POD, metadata.namespace, metadata.name, 'status'),
    contentType: 'application/merge-patch+json',
    body: {
      status: {
        // Where the tests themselves call from.
        ...(fate === 'ready' ? { podIP: '127.0.0.1', podIPs: [{ ip: '127.0.0.1' }] } : {}),
        conditions: [condition],
        containerStatuses: [{ ...container, state, lastState }],
      },
    },
  });
}

const triesWalls = ({ metadata }: kinds.Pod) => metadata.labels?.[LABEL.component] === NETWORK_PROBE;

const imageOf = (pod: kinds.Pod) => (triesWalls(pod) ? WALLS : (pod.spec?.containers?.[0]?.image ?? ''));

/** A probe is placed on its node and ends there; whose fate is `pending` never does. */
async function endProbe(client: ApiClient, pod: kinds.Pod, fate: Fate) {
  const { namespace, name, deletionTimestamp } = pod.metadata;
  if (deletionTimestamp !== undefined) return deletePod(client, pod);
  // No node is added here.
  if (probedNode(pod) === undefined) return;
  if (pod.status?.containerStatuses || fate === 'pending') return;
  const target = { kind: 'Node', name: probedNode(pod) };
  if (!pod.spec?.nodeName) {
    const body = { apiVersion: 'v1', kind: 'Binding', metadata: { name }, target };
    await client.call({ method: 'POST', path: pathOf(kinds.POD, namespace, name, 'binding'), body });
  }
  const passed = fate === 'ready';
  const unwell = triesWalls(pod)
    ? { exitCode: WALLS_OPEN, message: 'reached: the API server (10.0.0.1 port 443)\n' }
    : { exitCode: NOT_IN_SANDBOX, message: 'not in gVisor (kernel 6.1.0): log refused\n' };
  const terminated = passed ? { reason: 'Completed', exitCode: 0 } : { reason: 'Error', ...unwell };
  const container = { name: ATTESTER, image: '', imageID: '', ready: false, restartCount: 0 };
  await client.call({
    method: 'PATCH',
    path: pathOf(kinds.POD, namespace, name, 'status'),
    contentType: 'application/merge-patch+json',
    body: {
      status: {
        phase: passed ? 'Succeeded' : 'Failed',
        containerStatuses: [{ ...container, state: { terminated } }],
      },
    },
  });
}

const CONTENTS = [
  kinds.DEPLOYMENT,
  kinds.POD,
  kinds.SERVICE,
  kinds.CONFIG_MAP,
  kinds.SECRET,
  kinds.RESOURCE_QUOTA,
  kinds.LIMIT_RANGE,
  kinds.NETWORK_POLICY,
  kinds.ROLE_BINDING,
];

async function emptyNamespace(client: ApiClient, namespace: kinds.Namespace | undefined) {
  if (namespace?.metadata.deletionTimestamp === undefined) return;
  const { name } = namespace.metadata;
  for (const kind of CONTENTS) {
    await client.call({ method: 'DELETE', path: pathOf(kind, name), body: { gracePeriodSeconds: 0 } });
  }
  await client
    .call({
      method: 'PUT',
      path: pathOf(kinds.NAMESPACE, undefined, name, 'finalize'),
      // With UID and version in it: another of the name, made meanwhile, is left alone.
      body: { ...namespace, apiVersion: 'v1', kind: 'Namespace', spec: { finalizers: [] } },
    })
    .catch((error) => {
      if (!(error instanceof ApiError && [404, 409].includes(error.status))) throw error;
    });
}
