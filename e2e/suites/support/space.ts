import { randomBytes } from 'node:crypto';
import { inject } from 'vitest';
import { type Cluster, openCluster } from '../../cluster/index.ts';
import { clientOf } from '../../space/client.ts';
import type { Ask } from '../../space/example.ts';
import { createKube, finish, type Kube } from '../../space/kube.ts';
import type { KubeObject } from '../../space/kube-object.ts';
import type { Engine } from '../engines.ts';
import type { Installed } from './installed.ts';
import { until } from './until.ts';

export const installed: Installed = inject('installed');
/** The namespace of the operator and its objects; people use `installed.namespace`. */
export const system = `${installed.space}-system`;
export const services = `${installed.space}-services`;
/** Why a test is skipped that is about the servers which the chart runs. */
export const OWN_ENGINES =
  installed.layout === 'own-engines' ? 'this Space’s servers are not the chart’s' : undefined;
/** A part of this Space that has one pod, and its port. */
export const ONE_POD =
  OWN_ENGINES === undefined ? { part: 's3', port: 7070 } : { part: 'db-broker', port: 8080 };
export const kube: Kube = createKube(installed.kubectl, installed.kubeconfig);

/** A name that no other suite and no earlier run has used. */
export const unique = (prefix: string) =>
  `${prefix}-${randomBytes(3).toString('hex')}`.replace(/-(\d)/, '-x$1');

export interface Condition {
  readonly type: string;
  readonly status: 'True' | 'False' | 'Unknown';
  readonly reason: string;
  readonly message: string;
  readonly observedGeneration?: number;
}

export const conditionOf = (object: KubeObject | undefined, type: string): Condition | undefined =>
  object?.status?.conditions?.find((condition: Condition) => condition.type === type);

export function capsule(name: string, spec: object = {}) {
  return {
    apiVersion: 'platform.space/v1',
    kind: 'Capsule',
    metadata: { name, namespace: installed.namespace },
    spec,
  };
}

export function manifest(id: string, changes: object = {}) {
  return {
    platform: {
      spec: 1,
      id,
      version: '1.0.0',
      name: 'Probe',
      summary: 'Answers on its port and does nothing else',
      description: 'Stands still in its Capsule so that a test can look out of its windows.',
      creators: ['@space'],
      github: 'https://github.com/space/probe',
      genesis: 'Stand still.',
    },
    network: { allowed_hosts: [] },
    ...changes,
  };
}

/** Listens on its port with nothing but Node, and ends on SIGTERM, which a process 1 ignores by default. */
const LISTENER = [
  'node',
  '-e',
  "process.on('SIGTERM', () => process.exit()); require('node:net').createServer((s) => s.end()).listen(process.env.PORT)",
];

/**
 * An Assistant of the example's image that only listens. Its object is named after its id unless `objectName` is
 * given.
 */
export function assistant(capsuleName: string, id: string, changes: object = {}, objectName = id) {
  return {
    apiVersion: 'platform.space/v1',
    kind: 'Assistant',
    metadata: { name: objectName, namespace: installed.namespace },
    spec: {
      capsule: capsuleName,
      manifest: manifest(id),
      image: installed.image,
      command: LISTENER,
      ...changes,
    },
  };
}

export const getAssistant = (name: string) => kube.get('assistant', name, installed.namespace);

export const ready = (kind: 'capsule' | 'assistant', name: string, namespace = installed.namespace) =>
  until(`${kind} ${name} to be Ready`, async () => {
    const object = await kube.get(kind, name, namespace);
    const condition = conditionOf(object, 'Ready');
    if (condition?.status === 'True') return object;
    throw new Error(`${condition?.reason}: ${condition?.message}`);
  });

/** Waits until a condition has this status and reason. */
export const untilCondition = (
  kind: 'capsule' | 'assistant',
  name: string,
  type: string,
  status: string,
  reason: string,
) =>
  until(`${kind} ${name} to have ${type} ${status}, ${reason}`, async () => {
    const condition = conditionOf(await kube.get(kind, name, installed.namespace), type);
    if (condition?.status === status && condition.reason === reason) return condition;
    throw new Error(`${type} is ${condition?.status}, ${condition?.reason}: ${condition?.message}`);
  });

export const namespaceOf = async (capsuleName: string): Promise<string> =>
  (await ready('capsule', capsuleName)).status.namespace;

export const podsOf = (namespace: string, id: string) =>
  kube.list('pods', namespace, `platform.space/assistant=${id}`);

/** A pod that runs and is not being deleted: beside it, one that a rollout replaced may still exist. */
const running = (namespace: string, selector: string): Promise<KubeObject> =>
  until(`a running pod with ${selector}`, async () =>
    (await kube.list('pods', namespace, selector)).find(
      (pod) => pod.status.phase === 'Running' && pod.metadata.deletionTimestamp === undefined,
    ),
  );

export const runningPod = (namespace: string, id: string) =>
  running(namespace, `platform.space/assistant=${id}`);

/** A running pod of a program of the Space: `operator`, `egress` and so on. */
export const programPod = (namespace: string, component: string) =>
  running(namespace, `platform.space/component=${component}`);

export const gone = (kind: string, name: string, namespace?: string) =>
  until(`${kind} ${name} to be gone`, async () => (await kube.get(kind, name, namespace)) === undefined);

/** Deletes a suite's Capsules without waiting: the next suite need not wait, and so runs beside deletions. */
export async function deleteCapsules(...capsules: readonly string[]): Promise<void> {
  for (const name of capsules) await kube.remove('capsule', name, installed.namespace);
}

/** Waits until no Capsule of earlier suites is still being deleted, for tests that count what exists. */
export const untilDeletionsEnd = () =>
  until('the Capsules of earlier suites to be gone', async () =>
    (await kube.list('capsules', installed.namespace)).every(
      ({ metadata }) => metadata.deletionTimestamp === undefined,
    ),
  );

/** The connection URL that an Assistant was given. */
export async function databaseUrl(namespace: string, id: string): Promise<URL> {
  const secret = await kube.get('secret', `${id}-database`, namespace);
  if (secret === undefined) throw new Error(`no database Secret of ${id}`);
  return new URL(Buffer.from(secret.data.DATABASE_URL, 'base64').toString());
}

/** One statement as the superuser of the Space's server, over the socket in its own pod; rows as text. */
export async function superuserRows(sql: string): Promise<string[]> {
  const { namespace, pod } = installed.engines.postgres;
  const { code, stdout, stderr } = await kube.exec(namespace, pod, [
    'psql',
    '-XAtq',
    '-U',
    'postgres',
    '-c',
    sql,
  ]);
  if (code !== 0) throw new Error(stderr);
  return stdout.split('\n').filter((row) => row !== '');
}

/** The output of `psql` when it opens `database` with the credentials of `url`, from inside a server's pod. */
export function openDatabase(
  url: URL,
  database: string,
  server: Engine = installed.engines.postgres,
  statement = 'select current_database()',
) {
  const target = `host=127.0.0.1 port=5432 user=${url.username} dbname=${database}`;
  return kube.exec(server.namespace, server.pod, [
    'env',
    `PGPASSWORD=${decodeURIComponent(url.password)}`,
    'psql',
    '-XAtq',
    target,
    '-c',
    statement,
  ]);
}

/**
 * What the ledger of a Capsule answers to a request to its Service, as somebody asks it who may. `of` is the Space's
 * namespace. The API server's proxy is admitted to the pods of its own node alone, so with several nodes a client asks.
 */
export const ledgerOf =
  (inside: string, of = installed.namespace): Ask =>
  async (path, body) => {
    if (!installed.severalNodes) return kube.proxy(inside, 'ledger:8080', path, body);
    const place = { namespace: of, image: installed.image };
    return (await clientOf(kube, place, `ledger.${inside}:8080`))(path, body);
  };

/** What runs a command in each node that tests may enter; there is none where the cluster is not ours. */
export async function enterNodes(): Promise<readonly NonNullable<Cluster['node']>['command'][]> {
  const cluster = await openCluster(installed.cluster);
  if (cluster?.node === undefined) return [];
  return [cluster.node, ...(cluster.furtherNodes ?? [])].map((node) => node.command);
}

/** Ends the operator's processes with SIGKILL where nodes can be entered, and makes fresh pods take their place. */
export async function killOperator(): Promise<void> {
  // The console has the same namespace in its environment, and no image of the attester.
  const script =
    'for p in /proc/[0-9]*; do e=$(tr "\\0" "\\n" < $p/environ 2>/dev/null); grep -qx "SYSTEM_NAMESPACE=$0" <<< "$e" && grep -q "^SANDBOX_ATTESTER_IMAGE=" <<< "$e" && kill -KILL "$(basename "$p")"; done; true';
  const kill = (await enterNodes()).map((command) => command(['bash', '-c', script, system]));
  await Promise.all(kill.map(([program, ...args]) => finish(program, args)));
  // A fresh pod starts at once, where the kubelet would make a killed container wait.
  const selector = 'platform.space/component=operator';
  const args = ['delete', 'pod', '-n', system, '-l', selector, '--grace-period=0', '--force'];
  const { code, stderr } = await kube.run(args);
  if (code !== 0) throw new Error(stderr);
}
