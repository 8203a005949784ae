/** The Space of `npm run up`, with a Capsule whose Assistant sends the load and counts the answers. */
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Cluster, DEFAULT_CLUSTER, openCluster } from '../../e2e/cluster/index.ts';
import { createSteps } from '../../e2e/progress/index.ts';
import { createKube, type Kube } from '../../e2e/space/kube.ts';
import type { KubeObject } from '../../e2e/space/kube-object.ts';
import { manifest } from '../../operator/testing/manifest.ts';
import { makePki } from '../../testing/certificates.ts';
import { eventually } from '../../testing/eventually.ts';
import { openRelease, type Release } from '../../testing/soak/chaos-operator/administrators/release.ts';
import { LOAD_IMAGE } from './image.ts';

export const NAMES = {
  space: 'home',
  namespace: 'home',
  systemNamespace: 'home-system',
  servicesNamespace: 'home-services',
};
const { namespace, servicesNamespace: services } = NAMES;
const TUNNEL = 'rates.outside-bank.org';
const INPUT = 'api.outside-bank.org';
const WITHIN_MS = 15 * 60_000;
/**
 * One Assistant sends what many would, and twice as much while two of its pods overlap. The chart's limits for one would refuse
 * that (429), whatever is being maintained.
 */
const LIMITS = {
  ...{ connections: 512, tunnels: 128, requests: 256, perSecond: 400, burst: 800 },
  capsule: { connections: 1024, tunnels: 256, requests: 256, perSecond: 400 },
};

export interface SpaceUnderLoad {
  readonly kube: Kube;
  readonly release: Release;
  /** Values of a release whose gateway can reach the outside host, with limits for the load. */
  readonly outside: object;
  /** The name of both the Capsule and the Assistant. */
  readonly name: string;
  /** A node that runs neither PostgreSQL nor the S3 server. */
  readonly drainable: string;
  /** Runs kubectl; the error contains its output. */
  kubectl(...args: readonly string[]): Promise<string>;
  /** Rows of a statement in the Assistant's database, as the server's superuser. */
  rows(statement: string): Promise<readonly string[]>;
  /** Waits until the Assistant is Ready and has one pod. */
  ready(): Promise<void>;
  close(): Promise<void>;
}

/** Starts the load with these rates, in requests a second of each kind. */
export async function openSpaceUnderLoad(rates: Readonly<Record<string, number>>): Promise<SpaceUnderLoad> {
  const cluster = await openCluster(process.env['SPACE_CLUSTER'] ?? DEFAULT_CLUSTER);
  if (cluster?.node === undefined)
    throw new Error('no native cluster is running: start one with npm run up -- --nodes 3');
  const kube = createKube(await cluster.tool('kubectl'), cluster.kubeconfig);
  const kubectl = async (...args: readonly string[]) => {
    const { code, stdout, stderr } = await kube.run(args);
    if (code !== 0) throw new Error(`kubectl ${args.slice(0, 4).join(' ')}: ${stderr || stdout}`);
    return stdout.trim();
  };
  const drainable = await nodeToDrain(kube, cluster);
  const closers: (() => Promise<unknown>)[] = [];
  const close = async () => {
    for (const one of closers.reverse()) await one().catch((error: unknown) => console.error(String(error)));
  };
  try {
    const directory = await mkdtemp(join(tmpdir(), 'space-zero-downtime-'));
    closers.push(() => rm(directory, { recursive: true, force: true }));
    const release = await openRelease({ cluster, kube, space: { names: NAMES } }, directory);
    const name = `zero-${randomBytes(3).toString('hex')}`;
    const outside = await openOutside(cluster, closers);
    closers.push(() => release.upgrade(release.values));
    await release.upgrade(release.values, outside);
    closers.push(() => removeCapsule(kube, name));
    await kube.apply(...(await objectsOf(cluster, name, rates)));
    const ready = () => untilReady(kube, name);
    await ready();
    return {
      ...{ kube, release, outside, name, drainable, kubectl, ready, close },
      rows: (statement) => rowsOf(kube, name, statement),
    };
  } catch (error) {
    await close();
    throw error;
  }
}

async function nodeToDrain(kube: Kube, { furtherNodes = [] }: Cluster): Promise<string> {
  const servers = (await kube.list('pods', services)).filter(({ metadata }) =>
    ['postgres-0', 's3-0'].includes(metadata.name),
  );
  const taken = servers.map(({ spec }) => spec.nodeName);
  const free = furtherNodes.find(({ name }) => !taken.includes(name));
  if (free === undefined)
    throw new Error(
      'PostgreSQL or the S3 server runs on every further node, so none can be drained: use a cluster of npm run up -- --nodes 3',
    );
  return free.name;
}

/** Starts an outside host for tunnels and stored inputs; returns the values of a Space for it and for the load. */
async function openOutside({ node }: Cluster, closers: (() => Promise<unknown>)[]): Promise<object> {
  const pki = await makePki();
  closers.push(pki.remove);
  const outside = await node?.outside({
    ports: [443],
    tls: { port: 443, ...(await pki.issue(TUNNEL, INPUT)) },
    answers: { '/v1/rates': { header: ['x-api-key', 'key-of-the-bench'], body: '{"rates":{}}' } },
  });
  if (outside === undefined) throw new Error('the cluster cannot provide a host outside it');
  closers.push(async () => outside[Symbol.asyncDispose]());
  const [address] = outside.addresses;
  return {
    egress: {
      extraCA: pki.authority,
      hosts: { [TUNNEL]: address, [INPUT]: address },
      limits: LIMITS,
    },
    objectStore: { shares: { streams: 160 } },
  };
}

async function objectsOf(cluster: Cluster, name: string, rates: object): Promise<readonly object[]> {
  const steps = createSteps();
  const image = (await cluster.loadImages([LOAD_IMAGE], steps)).get(LOAD_IMAGE.name);
  steps.close();
  const bank = {
    ...{
      kind: 'password',
      label: 'Key',
      description: 'Lets the load read rates.',
      host: INPUT,
      header: 'X-Api-Key',
    },
    help_url: 'https://help.outside-bank.org/keys',
    routes: [{ method: 'GET', path: '/v1/rates', query: [{ name: 'base', values: ['EUR'] }] }],
  };
  const stored = { name: `${name}-bank`, namespace };
  return [
    { apiVersion: 'platform.space/v1', kind: 'Capsule', metadata: { name, namespace }, spec: {} },
    {
      ...{ apiVersion: 'v1', kind: 'Secret', type: 'platform.space/stored-input' },
      metadata: { ...stored, labels: { 'platform.space/capsule': name } },
      stringData: { value: 'key-of-the-bench' },
    },
    {
      ...{ apiVersion: 'platform.space/v1', kind: 'Assistant', metadata: { name, namespace } },
      spec: {
        ...{ capsule: name, image, port: 8080 },
        resources: { requests: { cpu: '500m', memory: '128Mi' }, limits: { memory: '384Mi' } },
        env: [
          { name: 'LOAD_RATES', value: JSON.stringify(rates) },
          { name: 'TUNNEL_HOST', value: TUNNEL },
        ],
        manifest: manifest('load', { network: { allowed_hosts: [TUNNEL] }, stored_inputs: { bank } }),
        storedInputs: { bank: { secretKeyRef: { name: stored.name, key: 'value' } } },
      },
    },
  ];
}

const insideOf = async (kube: Kube, name: string): Promise<string> =>
  (await kube.get('capsule', name, namespace))?.['status']?.namespace ?? '';

async function untilReady(kube: Kube, name: string): Promise<void> {
  await eventually(
    async () => {
      const object = await kube.get('assistant', name, namespace);
      const ready = object?.['status']?.conditions?.find(({ type }: { type: string }) => type === 'Ready');
      if (ready?.status !== 'True' || object?.['status'].observedGeneration !== object?.metadata.generation)
        throw new Error(`${ready?.reason}: ${ready?.message}`);
      const pods = await kube.list('pods', await insideOf(kube, name), 'platform.space/assistant=load');
      return pods.length === 1 && isRunning(pods[0]);
    },
    { what: `Assistant ${name} is Ready`, within: WITHIN_MS },
  );
}

const isRunning = (pod: KubeObject | undefined) =>
  pod?.metadata.deletionTimestamp === undefined && pod?.['status']?.phase === 'Running';

async function rowsOf(kube: Kube, name: string, statement: string): Promise<readonly string[]> {
  const secret = await kube.get('secret', 'load-database', await insideOf(kube, name));
  const url = new URL(Buffer.from(secret?.['data'].DATABASE_URL ?? '', 'base64').toString());
  const psql = ['psql', '-XAtqU', 'postgres', '-d', url.pathname.slice(1), '-c', statement];
  const { code, stdout, stderr } = await kube.exec(services, 'postgres-0', psql);
  if (code !== 0) throw new Error(stderr);
  return stdout.split('\n').filter((row) => row !== '');
}

async function removeCapsule(kube: Kube, name: string): Promise<void> {
  await kube.remove('capsule', name, namespace);
  await eventually(async () => (await kube.get('capsule', name, namespace)) === undefined, {
    what: `Capsule ${name} is gone`,
    within: WITHIN_MS,
  });
  await kube.remove('secret', `${name}-bank`, namespace);
}
