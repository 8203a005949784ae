/** Upgrades a release of the chart from before there were three namespaces, with Helm on a real API server. */

import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { gunzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { adoptKeys } from '../../operator/keys/adopt.ts';
import { clusterOf } from '../../operator/keys/cluster.ts';
import { keepKeys } from '../../operator/keys/keep.ts';
import { clearOut, copyOut } from '../../operator/keys/move.ts';
import { keysOptions } from '../../operator/keys/options.ts';
import type { ApiClient } from '../../operator/runtime/client.ts';
import { type ApiServer, startApiServer } from '../../testing/api-server.ts';
import { findTool } from '../cluster/tools.ts';
import { CHART, SOME_IMAGES } from './chart.ts';
import { type Finished, finish } from './kube.ts';
import type { KubeObject } from './kube-object.ts';

const BEFORE = resolve(import.meta.dirname, 'charts/space-0.1.0.tgz');
const [HOME, SYSTEM, SERVICES] = ['home', 'home-system', 'home-services'] as const;

let directory: string;
let helm: string;
let server: ApiServer;

const call = <T = KubeObject>(method: 'GET' | 'POST' | 'DELETE', path: string, body?: object) =>
  server.client.call<T>({ method, path, body });
const core = (place: string, kind: string, name = '') =>
  `/api/v1/namespaces/${place}/${kind}${name && `/${name}`}`;
const list = async (path: string) => (await call<{ items: KubeObject[] }>('GET', path)).items;
const secretsOf = async (place: string) =>
  new Map(
    (await list(core(place, 'secrets')))
      .filter(({ type }) => !String(type).startsWith('helm.sh/'))
      .map((secret) => [secret.metadata.name, secret]),
  );
/** Helm's records of the release, as JSON. */
async function records(): Promise<readonly string[]> {
  const found = (await list(core(HOME, 'secrets'))).filter(({ type }) => type === 'helm.sh/release.v1');
  return found.map(({ data }) => {
    const packed = Buffer.from(Buffer.from(data.release, 'base64').toString(), 'base64');
    return gunzipSync(packed).toString('utf8');
  });
}
const merge = (path: string, body: object) =>
  server.client.call({ method: 'PATCH', path, contentType: 'application/merge-patch+json', body });
const run = (...args: readonly string[]) =>
  finish(helm, [...args, '--namespace', HOME, '--kubeconfig', join(directory, 'kubeconfig')]);
const base64 = (text: string) => Buffer.from(text).toString('base64');
const told: string[] = [];

/** Objects that the operator of that release keeps in the same namespace as the Capsules, and those of people. */
const owner = { 'platform.space/owner-uid': 'a-capsule' };
const ofCapsule = { 'platform.space/space': HOME, 'platform.space/capsule': 'household' };
const secret = (name: string, value: string, labels: object, annotations: object, type = 'Opaque') => ({
  metadata: { name, labels, annotations },
  type,
  data: { principal: base64(value) },
});
const KEPT = [
  secret('capsule-household-database', 'spc_dbp_1', ofCapsule, owner),
  secret('capsule-household-objectstore', 'spc_osp_1', ofCapsule, owner),
  secret('egress-household.ledger', 'sealed', { ...ofCapsule, 'platform.space/assistant': 'ledger' }, owner),
  secret('capsule-former-database', 'spc_dbp_2', { ...ofCapsule, 'platform.space/retained': 'true' }, owner),
];
const PEOPLES = [
  secret('no-record', 'of Helm', { owner: 'helm', name: HOME }, {}),
  secret('bank-key', 'value', { 'platform.space/capsule': 'household' }, {}, 'platform.space/stored-input'),
  secret('notes', 'value', {}, {}),
];
const MOUNTED = secret('my-egress-provisioner', 'theirs', {}, {});

/** A Job that is killed, before it does anything or after it did everything. */
type Killed = 'before clear' | 'after clear' | 'after adopt';

/** Runs the Jobs of hooks as their pods would, with their account and arguments. */
async function runJobs(until: AbortSignal, killed?: Killed): Promise<void> {
  while (!until.aborted) {
    for (const place of [HOME, SYSTEM]) {
      const path = `/apis/batch/v1/namespaces/${place}/jobs`;
      for (const job of await list(path)) {
        if (job.metadata.annotations?.['helm.sh/hook'] === undefined || job['status'].conditions) continue;
        const { serviceAccountName, containers } = job['spec'].template.spec;
        const command = containers[0].command[2];
        hooks.push(command);
        if (killed !== `before ${command}`)
          await asJob(() => act(command, place, serviceAccountName, containers[0].env[0].value));
        const fails = killed?.endsWith(command) === true;
        await merge(`${path}/${job.metadata.name}/status`, { status: fails ? failed() : completed() });
      }
    }
    await sleep(100);
  }
}

const conditionsOf = (now: string, ...types: readonly string[]) =>
  types.map((type) => ({ type, status: 'True', reason: 'Test', lastTransitionTime: now }));
function completed(now = new Date().toISOString()) {
  const conditions = conditionsOf(now, 'SuccessCriteriaMet', 'Complete');
  return { startTime: now, completionTime: now, succeeded: 1, conditions };
}
function failed(now = new Date().toISOString()) {
  return { startTime: now, failed: 1, conditions: conditionsOf(now, 'FailureTarget', 'Failed') };
}

async function upgrade(killed?: Killed) {
  const jobs = new AbortController();
  const args = [...SOME_IMAGES, '--reset-then-reuse-values', '--timeout', '4m'];
  const upgraded = run('upgrade', HOME, CHART, ...args).finally(() => jobs.abort());
  await Promise.all([upgraded, runJobs(jobs.signal, killed)]);
  return upgraded;
}

/**
 * A Job of the chart starts its pod again twice: a policy that the upgrade changed is in force only a moment later.
 */
async function asJob(work: () => Promise<void>): Promise<void> {
  for (let failed = 1; ; failed += 1)
    try {
      return await work();
    } catch (error) {
      if (failed > 2) throw error;
      await sleep(failed * 5_000);
    }
}

async function act(command: string, place: string, account: string, options: string): Promise<void> {
  const client = await clientOf(place, account);
  const job = {
    ...keysOptions.parse(JSON.parse(options)),
    cluster: clusterOf(client, `space-keys-${Math.random()}`),
    now: new Date(),
    tell: (did: string, what: string) => told.push(`${did} ${what}`),
  };
  if (command === 'keep') expect(await keepKeys(job)).toBe(0);
  const move = { run: job, client, wait: operatorEnds };
  if (command === 'keep') return;
  if (command === 'adopt') await adoptKeys(job);
  const step = command === 'adopt' ? copyOut : clearOut;
  // If it is killed after any of its calls, it is started again.
  for (let calls = 0; calls < 40; calls += 1) {
    await step({ ...move, client: ending(client, calls) }).catch(() => undefined);
    await canGoBack();
  }
  await step(move);
}

/** Helm can roll back to a revision that rendered keys only while everything that its operator had is there. */
async function canGoBack(): Promise<void> {
  const revisions = (await records()).filter((text) => text.includes('kind: Secret\\n'));
  if (revisions.length === 0) return;
  const here = await secretsOf(HOME);
  expect([...before.home.keys()].filter((name) => !here.has(name))).toEqual([]);
}

function ending(client: ApiClient, calls: number): ApiClient {
  let left = calls;
  return {
    ...client,
    call: async (request) => {
      if (left === 0) throw new Error('killed');
      left -= 1;
      return client.call(request);
    },
  };
}

async function clientOf(place: string, account: string): Promise<ApiClient> {
  const { status } = await call('POST', core(place, 'serviceaccounts', `${account}/token`), {
    apiVersion: 'authentication.k8s.io/v1',
    kind: 'TokenRequest',
    spec: {},
  });
  return server.clientOf(status.token);
}

const operators = async () => {
  const deployments = await list('/apis/apps/v1/deployments');
  const found = deployments.filter(({ metadata }) => metadata.name === 'home-operator');
  return found.map(({ metadata, spec }) => [metadata.namespace, spec.replicas]);
};

/** No controller runs here: the operator's pod starts and ends with its Deployment. */
const startOperator = () =>
  call('POST', core(HOME, 'pods'), {
    metadata: {
      name: 'home-operator-1',
      labels: { 'platform.space/space': HOME, 'platform.space/component': 'operator' },
    },
    spec: { containers: [{ name: 'operator', image: 'registry.test/operator:1' }] },
  });
async function operatorEnds(): Promise<void> {
  expect([...(await secretsOf(SYSTEM)).keys()]).toEqual([]);
  expect(await operators()).toEqual([]);
  await call('DELETE', core(HOME, 'pods', 'home-operator-1'), { gracePeriodSeconds: 0 });
}

/** No controller runs here: a namespace in deletion ends when it is finalized, and what is in it has to go before. */
async function endNamespace(name: string): Promise<void> {
  const path = `/api/v1/namespaces/${name}`;
  const ended = await call('GET', path);
  expect(ended.metadata.deletionTimestamp).toEqual(expect.any(String));
  for (const plural of ['secrets', 'configmaps']) await call('DELETE', core(name, plural), {});
  await server.client.call({ method: 'PUT', path: `${path}/finalize`, body: { ...ended, spec: {} } });
}

const unnamed: string[] = [];
/** The programs of hooks, in the order in which they ran. */
const hooks: string[] = [];
const failures: string[] = [];
let rolledBack: readonly [Finished, unknown];
let before: { home: Map<string, KubeObject>; services: Map<string, KubeObject> };

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'space-upgrade-'));
  helm = await findTool('helm', directory);
  server = await startApiServer();
  await writeFile(join(directory, 'kubeconfig'), server.kubeconfig, { mode: 0o600 });
  await call('POST', '/api/v1/namespaces', { metadata: { name: HOME } });
  const installed = await run(
    'install',
    HOME,
    BEFORE,
    '--set',
    'existingSecrets.egressProvisioner=my-egress-provisioner',
  );
  if (installed.code !== 0) throw new Error(installed.stderr);
  for (const one of [...KEPT, ...PEOPLES, MOUNTED]) await call('POST', core(HOME, 'secrets'), one);
  await startOperator();
  before = { home: await secretsOf(HOME), services: await secretsOf(SERVICES) };
  for (const reuse of ['--reset-then-reuse-values', '--reuse-values'])
    unnamed.push((await run('upgrade', HOME, CHART, reuse)).stderr);
  failures.push((await upgrade('after adopt')).stderr);
  rolledBack = [await run('rollback', HOME, '1'), await operators()];
  await startOperator();
  await endNamespace(SYSTEM);
  for (const killed of ['before clear', 'after clear'] as const)
    failures.push((await upgrade(killed)).stderr);
  const upgraded = await upgrade();
  if (upgraded.code !== 0) throw new Error(upgraded.stderr);
}, 900_000);

afterAll(async () => {
  await server?.stop();
  await rm(directory, { recursive: true, force: true });
});

describe('an upgrade from one namespace for people and operator', () => {
  it('is refused without images, which that chart had by default', () => {
    expect(unnamed).toEqual([
      expect.stringContaining('no image is set in console.image, dbBroker.image, '),
      expect.stringContaining('there is no digest in dbBroker.image, '),
    ]);
  });

  it('that failed before it moved the operator can be rolled back, which starts that again', () => {
    expect(failures[0]).toContain('pre-upgrade hooks failed');
    const [{ code, stderr }, found] = rolledBack;
    expect([code, stderr]).toEqual([0, expect.any(String)]);
    expect(found).toEqual([[HOME, 1]]);
  });

  it('that failed after it moved the operator is completed by those that repeat it', () => {
    expect(failures.slice(1)).toEqual(Array(2).fill(expect.stringContaining('post-upgrade hooks failed')));
    expect(hooks).toEqual(['adopt', 'adopt', 'clear', 'clear', 'clear']);
  });

  it('moves the operator, and everything that it keeps, into its own namespace', async () => {
    const system = await secretsOf(SYSTEM);
    for (const { metadata, data, type } of KEPT)
      expect(system.get(metadata.name)).toMatchObject({ metadata, data, type });
    expect(system.get('my-egress-provisioner')?.['data']).toEqual(MOUNTED.data);
    for (const name of ['db-provisioner', 'objectstore-provisioner'])
      expect(system.get(name)?.['data']).toEqual(before.home.get(name)?.['data']);
    for (const { metadata } of system.values())
      expect(JSON.stringify([metadata.labels ?? {}, metadata.annotations ?? {}])).not.toMatch(/helm/i);
    expect((await operators()).map(([place]) => place)).toEqual([SYSTEM]);
  });

  it('leaves people’s objects, and nothing of the Space beside them', async () => {
    const theirs = [...PEOPLES, MOUNTED].map(({ metadata }) => metadata.name);
    expect([...(await secretsOf(HOME)).keys()].sort()).toEqual(theirs.sort());
    const maps = (await list(core(HOME, 'configmaps'))).map(({ metadata }) => metadata.name);
    expect(maps).not.toContain('space-ca');
  });

  it('keeps every Secret of the services as the same object', async () => {
    const services = await secretsOf(SERVICES);
    for (const [name, { metadata, data }] of before.services) {
      expect(services.get(name)?.['data']).toEqual(data);
      expect(services.get(name)?.metadata.uid).toBe(metadata.uid);
    }
  });

  it('leaves no record of Helm’s with a key in it, and no rollback to one', async () => {
    const canaries = [...before.services.values(), ...before.home.values()]
      .flatMap(({ data }) => Object.values((data ?? {}) as Record<string, string>))
      .filter((value) => value.length > 40);
    const texts = await records();
    expect(texts.length).toBeGreaterThan(0);
    for (const text of texts)
      for (const canary of canaries) {
        expect(text.includes(canary)).toBe(false);
        expect(text.includes(Buffer.from(canary, 'base64').toString('utf8'))).toBe(false);
      }
    const rollback = await run('rollback', HOME, '1', '--no-hooks');
    expect(rollback.code).not.toBe(0);
    expect(rollback.stderr).toContain('no 1 version');
  });

  it('makes the program of keys adopt the existing keys', async () => {
    const [job] = (await list(`/apis/batch/v1/namespaces/${SYSTEM}/jobs`)).filter(
      ({ metadata }) => metadata.annotations?.['helm.sh/hook'] === undefined,
    );
    const { serviceAccountName, containers } = job!['spec'].template.spec;
    told.length = 0;
    await act('keep', SYSTEM, serviceAccountName, containers[0].env[0].value);
    expect(told.filter((line) => !/(space-ca|-tls|console-session|egress-observer)$/.test(line))).toEqual([]);
  });

  it('leaves nothing of its own two programs', async () => {
    for (const place of [HOME, SYSTEM, SERVICES])
      for (const kind of ['roles', 'rolebindings'])
        expect(
          (await list(`/apis/rbac.authorization.k8s.io/v1/namespaces/${place}/${kind}`)).filter(
            ({ metadata }) => /-(adopt|clear)$/.test(metadata.name),
          ),
        ).toEqual([]);
    const maps = (await list(core(SYSTEM, 'configmaps'))).map(({ metadata }) => metadata.name);
    expect(maps).not.toContain('home-keys-moving');
  });

  it('is done once: another one changes nothing, nor what the operator lets the console read', async () => {
    const system = await secretsOf(SYSTEM);
    const role = `/apis/rbac.authorization.k8s.io/v1/namespaces/${SYSTEM}/roles/home-console-principals`;
    const resourceNames = ['capsule-household-objectstore'];
    const rules = [{ apiGroups: [''], resources: ['secrets'], resourceNames, verbs: ['get'] }];
    const written = { rules, metadata: { annotations: { 'platform.space/applied': 'x' } } };
    const { metadata } = (await merge(role, written)) as KubeObject;
    const { code, stderr } = await run('upgrade', HOME, CHART, '--reset-then-reuse-values');
    expect([code, stderr]).toEqual([0, expect.any(String)]);
    expect(await secretsOf(SYSTEM)).toEqual(system);
    const after = await call('GET', role);
    expect([after['rules'], after.metadata.uid]).toEqual([rules, metadata.uid]);
    expect(after.metadata.annotations).toMatchObject(written.metadata.annotations);
  });
});

describe('a copy that was begun before', () => {
  const path = (place: string) => core(place, 'secrets', 'capsule-again-database');
  const again = async () => {
    told.length = 0;
    const options = {
      space: HOME,
      releaseNamespace: HOME,
      systemNamespace: SYSTEM,
      servicesNamespace: SERVICES,
      objectStore: true,
      byok: false,
      console: true,
      backup: false,
      tls: false,
      given: [],
      volumes: [],
      mounted: { secrets: [], configMaps: [] },
    };
    const { client } = server;
    const job = {
      ...options,
      cluster: clusterOf(client, 'test'),
      now: new Date(),
      tell: (did: string, what: string) => told.push(`${did} ${what}`),
    };
    await copyOut({ run: job, client, wait: () => sleep(100) });
    return (await call('GET', path(SYSTEM)))['data'].principal;
  };

  it('follows what the old operator wrote since, until the new one has led', async () => {
    await call('POST', core(HOME, 'secrets'), secret('capsule-again-database', 'first', ofCapsule, owner));
    expect(await again()).toBe(base64('first'));
    await merge(path(HOME), { data: { principal: base64('second') } });
    expect(await again()).toBe(base64('second'));
    expect(told).toContain(`updated ${SYSTEM}/capsule-again-database`);
    await call('POST', `/apis/coordination.k8s.io/v1/namespaces/${SYSTEM}/leases`, {
      metadata: { name: 'home-operator' },
    });
    await merge(path(HOME), { data: { principal: base64('third') } });
    expect(await again()).toBe(base64('second'));
    expect(told).toContain(`differs ${SYSTEM}/capsule-again-database`);
  });
});
