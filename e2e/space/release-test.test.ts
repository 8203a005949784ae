/** The program of `helm test`, on a real API server, with the rights and policies that the chart gives it there. */
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { POLICY_BINDING } from '../../operator/admission.ts';
import { pathOf } from '../../operator/runtime/kube-object.ts';
import { type Check, checksOf } from '../../operator/selftest/checks.ts';
import { type SelfTestOptions, selfTestOptions } from '../../operator/selftest/options.ts';
import { reaches } from '../../operator/selftest/reaches.ts';
import { eventually } from '../../testing/eventually.ts';
import { freePort } from '../../testing/ports.ts';
import { findTool } from '../cluster/tools.ts';
import { CHART, SOME_IMAGES } from './chart.ts';
import { finish } from './kube.ts';
import type { KubeObject } from './kube-object.ts';
import { collectionOf } from './rights-held.ts';
import { named, type PolicyServer, startPolicyServer } from './testing/policy-server.ts';

const run = promisify(execFile);
const PROGRAM = resolve(import.meta.dirname, '../../operator/selftest/main.ts');

let directory: string;
let policyServer: PolicyServer;
let options: SelfTestOptions;
let token: string;
let reached: string[] = [];

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'space-release-test-'));
  policyServer = await startPolicyServer();
  const helm = await findTool('helm', directory);
  const { stdout, stderr } = await finish(helm, [
    'template',
    'home',
    CHART,
    '--namespace',
    'home',
    ...SOME_IMAGES,
  ]);
  if (stdout === '') throw new Error(stderr);
  const objects = parseAllDocuments(stdout).flatMap((one): KubeObject[] => one.toJS() ?? []);
  const hooks = objects.filter(({ metadata }) => metadata.annotations?.['helm.sh/hook'] === 'test');
  for (const object of hooks.filter(({ kind }) => kind !== 'Job'))
    await policyServer.create(collectionOf(object) ?? '', object);
  const job = hooks.find(({ kind }) => kind === 'Job') as KubeObject;
  const [variable] = job['spec'].template.spec.containers[0].env;
  options = selfTestOptions.parse(JSON.parse(variable.value));
  for (const object of objects.filter(({ kind }) => kind === 'Deployment' || kind === 'StatefulSet'))
    await standing(object);
  for (const component of ['sandbox-probe', 'network-probe']) await probe(component, 'Succeeded');
  const account = '/api/v1/namespaces/home-system/serviceaccounts/home-test/token';
  token = ((await policyServer.create(account, { spec: {} })) as { status: { token: string } }).status.token;
  await eventually(async () => (await look()).length > 0, { what: 'the account to have its roles' });
}, 900_000);
afterAll(async () => {
  await policyServer?.stop();
  await rm(directory, { recursive: true, force: true });
});
beforeEach(() => {
  reached = [];
});

const patch = (path: string, body: object) =>
  policyServer.server.client.call({
    method: 'PATCH',
    path,
    contentType: 'application/merge-patch+json',
    body,
  });

/** Creates the workload as the chart has it, and reports all of its pods as ready. */
async function standing(object: KubeObject): Promise<void> {
  const { namespace = '', name } = object.metadata;
  const collection = `/apis/apps/v1/namespaces/${namespace}/${object.kind.toLowerCase()}s`;
  const made = (await policyServer.create(collection, object)) as KubeObject;
  const replicas: number = made['spec'].replicas;
  const status = { observedGeneration: made.metadata.generation, replicas, updatedReplicas: replicas };
  await patch(`${collection}/${name}/status`, { status: { ...status, readyReplicas: replicas } });
}

async function probe(component: string, phase: string, message?: string): Promise<void> {
  const at = '/api/v1/namespaces/home-system/pods';
  const name = `${component}-1`;
  await policyServer.create(at, {
    ...named(name, { 'platform.space/space': 'home', 'platform.space/component': component }),
    spec: { containers: [{ name: 'attest', image: 'x' }] },
  });
  const ended = { name: 'attest', image: 'x', imageID: '', ready: false, restartCount: 0 };
  const containerStatuses = message && [{ ...ended, state: { terminated: { exitCode: 3, message } } }];
  await patch(`${at}/${name}/status`, { status: { phase, ...(containerStatuses && { containerStatuses }) } });
}

const look = (): Promise<readonly Check[]> =>
  checksOf(
    {
      client: policyServer.server.clientOf(token),
      options,
      reaches: async (address, port) => reached.includes(`${address}:${port}`),
    },
    AbortSignal.timeout(60_000),
  );
const faults = async () =>
  (await look()).flatMap(({ name, faults: all }) => all.map((one) => `${name}: ${one}`));
const capsule = '/apis/platform.space/v1/namespaces/home/capsules';
const deployments = (namespace: string) => `/apis/apps/v1/namespaces/${namespace}/deployments`;

describe('the test of a release', () => {
  it('finds nothing wrong with a healthy Space, with the rights that it has', async () => {
    const checks = await look();
    expect(checks.flatMap((check) => check.faults)).toEqual([]);
    expect(checks.map(({ name }) => name)).toEqual([
      'admission policies',
      'parts',
      'enforcement',
      'Capsules',
      'walls',
    ]);
  });

  it('reports a part with missing pods, and a missing part', async () => {
    const broker = `${deployments('home-services')}/db-broker`;
    await patch(`${broker}/status`, { status: { readyReplicas: 0 } });
    expect(await faults()).toEqual(['parts: home-services/db-broker: 0 of 2 pods are ready']);
    await patch(broker, { spec: { replicas: 0 } });
    expect(await faults()).toEqual([
      expect.stringContaining('home-services/db-broker: it is scaled to zero'),
    ]);
    await policyServer.server.client.call({ method: 'DELETE', path: broker, body: {} });
    expect(await faults()).toEqual(['parts: db-broker: it does not exist']);
    options = { ...options, parts: options.parts.filter((part) => part !== 'db-broker') };
  });

  it('reports a Capsule that is not Ready with the reason, and one that no operator reconciles', async () => {
    await policyServer.create(capsule, {
      apiVersion: 'platform.space/v1',
      kind: 'Capsule',
      ...named('household'),
      spec: {},
    });
    expect(await faults()).toEqual([
      expect.stringMatching(/^Capsules: household: Waiting: No operator has looked at it yet\./),
    ]);
    const said = (status: string, reason: string, message: string) =>
      patch(`${capsule}/household/status`, {
        status: {
          conditions: [
            { type: 'Ready', status, reason, message, lastTransitionTime: '2026-11-24T00:00:00Z' },
          ],
        },
      });
    await said('False', 'EnforcementFailed', 'a pod reached the API server');
    expect(await faults()).toEqual(['Capsules: household: EnforcementFailed: a pod reached the API server']);
    await said('True', 'Ready', 'it is');
    expect(await faults()).toEqual([]);
  });

  it('reports what a probe has found, and that nothing is proved without one', async () => {
    const at = '/api/v1/namespaces/home-system/pods/network-probe-1';
    const query = { gracePeriodSeconds: '0' };
    const gone = () => policyServer.server.client.call({ method: 'DELETE', path: at, query, body: {} });
    await gone();
    const unproven = 'enforcement: that network policies are enforced is not proved: none of';
    expect(await faults()).toEqual([`${unproven} 0 probes has passed`]);
    await probe('network-probe', 'Failed', 'reached: the API server (10.96.0.1 port 443)');
    expect(await faults()).toEqual([
      `${unproven} 1 probes has passed`,
      'enforcement: probe network-probe-1: reached: the API server (10.96.0.1 port 443)',
    ]);
    await gone();
    await probe('network-probe', 'Succeeded');
    expect(await faults()).toEqual([]);
  });

  it('reports what it reached itself', async () => {
    const service = {
      ...named('s3', { 'platform.space/space': 'home' }),
      spec: { ports: [{ port: 7070 }], selector: { a: 'b' } },
    };
    const made = (await policyServer.create(
      '/api/v1/namespaces/home-services/services',
      service,
    )) as KubeObject;
    reached = [`${made['spec'].clusterIP}:7070`, '169.254.169.254:80'];
    expect(await faults()).toEqual([
      `walls: Service s3 (${made['spec'].clusterIP} port 7070) was reached`,
      'walls: the metadata address (169.254.169.254 port 80) was reached',
    ]);
    const at = '/api/v1/namespaces/home-services/services/s3';
    await policyServer.server.client.call({ method: 'DELETE', path: at, body: {} });
  });

  it('reports what answers, and nothing about what does not', async () => {
    // Closed, it is nobody else's: neither another server's, nor that of the connection itself.
    const port = await freePort();
    const server = createServer().listen(port, '127.0.0.1');
    await once(server, 'listening');
    expect(await reaches(60_000)('127.0.0.1', port)).toBe(true);
    await new Promise((done) => server.close(done));
    expect(await reaches(60_000)('127.0.0.1', port)).toBe(false);
  });
});

describe('its program', () => {
  const program = async () => {
    const kubeconfig = JSON.parse(policyServer.server.kubeconfig);
    const users = kubeconfig.users.map((user: object) => ({ ...user, user: { token } }));
    const file = join(directory, 'kubeconfig');
    await writeFile(file, JSON.stringify({ ...kubeconfig, users }));
    const env = {
      ...process.env,
      KUBECONFIG: file,
      SPACE_TEST: JSON.stringify({ ...options, closed: [], seconds: 0 }),
    };
    return run(process.execPath, [PROGRAM], { env }).then(
      ({ stdout }) => ({ code: 0, stdout }),
      ({ code, stdout }: { code: number; stdout: string }) => ({ code, stdout }),
    );
  };

  it('ends with 0 when everything holds, and says what it does not measure', async () => {
    const { code, stdout } = await program();
    expect(stdout.split('\n').slice(0, 5)).toEqual([
      expect.stringMatching(/^ok {6}admission policies/),
      expect.stringMatching(/^ok {6}parts/),
      expect.stringMatching(/^ok {6}enforcement/),
      expect.stringMatching(/^ok {6}Capsules: 1 are Ready/),
      expect.stringMatching(/^ok {6}walls/),
    ]);
    expect(stdout).toContain('npm run verify');
    expect(code).toBe(0);
  });

  it('ends with 1 when an admission policy is not in force, and names it', async () => {
    const path = pathOf(POLICY_BINDING, undefined, 'home-sandbox');
    await patch(path, { spec: { validationActions: ['Audit'] } });
    const { code, stdout } = await program();
    expect([code, stdout]).toEqual([
      1,
      expect.stringMatching(/FAILED {2}admission policies: .*"home-sandbox"/),
    ]);
    expect(stdout).toContain('some checks failed');
  });

  it('ends with 1 when it lacks a right', async () => {
    token = 'nobody';
    const { code, stdout } = await program();
    expect([code, stdout]).toEqual([1, expect.stringContaining('FAILED')]);
  });
});
