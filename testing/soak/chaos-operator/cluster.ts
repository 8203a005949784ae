import { readFile } from 'node:fs/promises';
import { KubeConfig } from '@kubernetes/client-node';
import { type Cluster, DEFAULT_CLUSTER, openCluster as openNamed } from '../../../e2e/cluster/index.ts';
import { createKube, finish, type Kube } from '../../../e2e/space/kube.ts';
import * as kinds from '../../../operator/kinds.ts';
import { capsuleNamespace } from '../../../operator/names.ts';
import { apiClient } from '../../../operator/runtime/client.ts';
import { connect } from '../../../operator/runtime/connection.ts';
import { kubectlIn } from '../../../operator/testing/kubectl.ts';
import { manifest } from '../../../operator/testing/manifest.ts';
import { openAdministrators } from './administrators/index.ts';
import { ledgers } from './ledgers.ts';
import { type KillProcess, killablePod, type Part, type Record } from './pods.ts';
import type { Ask, SpaceView, World } from './world.ts';

/** The names that `npm run up` uses. */
const NAMES = {
  space: 'home',
  namespace: 'home',
  systemNamespace: 'home-system',
  servicesNamespace: 'home-services',
};
const EXAMPLE = 'ledger';

const { namespace, systemNamespace, servicesNamespace } = NAMES;
const PARTS: readonly Part[] = [
  { name: 'operator', namespace: systemNamespace, component: 'operator', meanRunMs: 10_000 },
  { name: 'db-broker', namespace: servicesNamespace, component: 'db-broker', meanRunMs: 15_000 },
  {
    name: 'objectstore-broker',
    namespace: servicesNamespace,
    component: 'objectstore-broker',
    meanRunMs: 20_000,
  },
  { name: 'egress', namespace: servicesNamespace, component: 'egress', meanRunMs: 25_000 },
  { name: 'postgres', namespace: servicesNamespace, component: 'postgres', meanRunMs: 40_000, single: true },
];

/** Opens the Space that `npm run up` has started. */
export async function openCluster(): Promise<World> {
  const cluster = await openNamed(process.env['SPACE_CLUSTER'] ?? DEFAULT_CLUSTER);
  if (cluster === undefined) throw new Error('no Space is running: start one with npm run up');
  const kube = createKube(await cluster.tool('kubectl'), cluster.kubeconfig);
  const kubeconfig = new KubeConfig();
  kubeconfig.loadFromString(await readFile(cluster.kubeconfig, 'utf8'));
  const connection = connect(kubeconfig);
  const space = viewOf(apiClient(connection));
  const example = await space.get<kinds.Assistant>(kinds.ASSISTANT, EXAMPLE);
  if (example === undefined)
    throw new Error('the example Assistant does not exist: create it with npm run up');
  const { image, resources } = example.spec;
  const record: Record = { processes: 0, pods: 0, ended: [] };
  const tenant = ledgers(space);
  const administrators = await openAdministrators({ cluster, kube, space, tenant }).catch(
    (error: unknown) => {
      connection.close();
      throw error;
    },
  );
  return {
    administrators,
    title: 'Parts of an installed Space killed at random moments, on a cluster, with Assistants in gVisor',
    space,
    parts: PARTS.map((part) => killablePod(space.client, part, killerOn(cluster), record)),
    make: (id) => ({
      image,
      resources,
      // An allowed host, so that each Assistant also needs the gateway.
      manifest: manifest(id, { network: { allowed_hosts: ['api.example.org'] } }),
    }),
    tenant,
    sight: {
      databases: askingIn(kube, 'space_registry'),
      files: askingIn(kube, 'space_objectstore'),
      objects: () => objectsOf(kube),
    },
    secrets: ['database', 'objectstore', 'egress'],
    ended: () => record.ended,
    rows: () => [
      { what: 'kills of the process alone', count: record.processes },
      { what: 'kills with deletion of the pod', count: record.pods },
      { what: 'containers that ended without being killed', count: record.ended.length },
    ],
    close: () => administrators.end().finally(() => connection.close()),
  };
}

function viewOf(client: SpaceView['client']): SpaceView {
  return {
    client,
    names: NAMES,
    namespaceOf: (capsule) => capsuleNamespace(NAMES.space, capsule),
    get: kubectlIn(client, namespace, systemNamespace).get,
  };
}

/** Kills the first process of each container of a pod except the one that keeps the sandbox, and prints what it killed. */
const KILL = `
  for file in $(grep -lE "pod$0" /proc/[0-9]*/cgroup 2>/dev/null); do
    at=\${file%/cgroup}
    [ "$(cat $at/comm)" = pause ] && continue
    [ "$(awk '/^NSpid:/ { print $NF }' $at/status)" = 1 ] && kill -KILL \${at#/proc/} && echo \${at#/proc/}
  done 2>/dev/null
  true`;

function killerOn({ node }: Cluster): KillProcess {
  if (node === undefined) return async () => false;
  return async (podUid) => {
    // The form of the UID in the name of a cgroup depends on the driver.
    const [program, ...args] = node.command(['bash', '-c', KILL, podUid.replaceAll('-', '[-_]')]);
    return (await finish(program, args)).stdout.trim() !== '';
  };
}

/** Runs as the embedded server's superuser, over the socket in its own pod. */
function askingIn(kube: Kube, database: string): Ask {
  return async <Row extends globalThis.Record<string, unknown>>(statement: string) => {
    const whole = `SELECT coalesce(json_agg(rows), '[]') FROM (${statement}) rows`;
    const psql = ['psql', '-XAtq', '-U', 'postgres', '-d', database, '-c', whole];
    const { code, stdout, stderr } = await kube.exec(servicesNamespace, 'postgres-0', psql);
    if (code !== 0) throw new Error(stderr);
    return JSON.parse(stdout) as Row[];
  };
}

/** The S3 server stores an object as a file; the names of a Capsule's objects begin with `c/`. */
async function objectsOf(kube: Kube): Promise<readonly string[]> {
  const find = ['find', '/data', '-path', '/data/*/c/*', '-type', 'f'];
  const { code, stdout, stderr } = await kube.exec(servicesNamespace, 's3-0', find);
  if (code !== 0) throw new Error(stderr);
  return stdout.split('\n').filter((line) => line !== '');
}
