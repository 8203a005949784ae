/** The gate on a real API server with one node, which probes test. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { eventually } from '../../testing/eventually.ts';
import * as kinds from '../kinds.ts';
import { WALLS } from '../testing/controllers.ts';
import { underAnySchema } from '../testing/definitions.ts';
import { manifest } from '../testing/manifest.ts';
import { ATTESTER_IMAGE, IMAGE, type TestSpace } from '../testing/space.ts';
import { openTestEnvironment, type TestEnvironment } from '../testing/test-environment.ts';
import { isWaitingProbe, NETWORK_PROBE, PROBE } from './probe.ts';

const { ASSISTANT, CAPSULE, POD, RUNTIME_CLASS } = kinds;
const READY = 'True Ready';
const NODE_NAME = 'node';
let environment: TestEnvironment;
let space: TestSpace;
let home: string;
let boots = 0;

beforeAll(async () => {
  environment = await openTestEnvironment();
});
afterAll(() => environment?.close());
beforeEach(async () => {
  space = await environment.space();
  home = space.home;
});
afterEach(() => space.close());

const probes = async (component = PROBE) =>
  (await space.list<kinds.Pod>(POD)).filter(
    ({ metadata }) => metadata.labels?.['platform.space/component'] === component,
  );
const uidsOf = async (component?: string) => (await probes(component)).map(({ metadata }) => metadata.uid);

/** The node comes up again, so that what was known of it is no longer known. */
async function boot(): Promise<void> {
  boots += 1;
  await environment.server.client.call({
    method: 'PATCH',
    path: `/api/v1/nodes/${NODE_NAME}/status`,
    contentType: 'application/merge-patch+json',
    body: { status: { nodeInfo: { bootID: `boot-${boots}` } } },
  });
}

describe('a node', () => {
  test('is probed once, and not again by another operator', async () => {
    await space.start();
    await space.settled();
    const first = await uidsOf();
    expect(first).toHaveLength(1);
    await space.rests();
    await space.restartedAndLooked();
    expect(space.run.acts).toEqual([]);
    expect(await uidsOf()).toEqual(first);
    await space.removed(CAPSULE, home);
  });

  test('is probed again after it restarted, and the old probe is removed', async () => {
    await space.start();
    await space.capsule(home);
    await space.becomes(CAPSULE, home, 'Ready', READY);
    const [first] = await uidsOf();
    await boot();
    await eventually(async () => (await uidsOf()).length === 1 && (await uidsOf())[0] !== first, {
      what: 'another probe is there, and no other',
    });
    await space.becomes(CAPSULE, home, 'Ready', READY);
    await space.removed(CAPSULE, home);
  });

  test('that fails is reported by name and nothing is scheduled until it passes', async () => {
    space.fates.set(ATTESTER_IMAGE, 'crashes');
    await space.start();
    await space.capsule(home);
    await space.assistant('ledger', { capsule: home });
    await space.becomes(CAPSULE, home, 'SandboxReady', 'False ProbeFailed');
    await space.becomes(ASSISTANT, 'ledger', 'Ready', 'False CapsuleNotReady');
    expect(await space.message(CAPSULE, home, 'SandboxReady')).toContain(
      `On node "${NODE_NAME}" a probe under RuntimeClass "${space.names.runtimeClass}" found: not in gVisor`,
    );
    expect(await space.list(POD, space.namespaceOf(home))).toEqual([]);
    space.fates.delete(ATTESTER_IMAGE);
    await boot();
    await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
    await space.removed(CAPSULE, home);
  });

  test('that is being probed keeps the gate closed', async () => {
    space.fates.set(ATTESTER_IMAGE, 'pending');
    await space.start();
    await space.capsule(home);
    await space.assistant('ledger', { capsule: home });
    await space.becomes(CAPSULE, home, 'SandboxReady', 'Unknown ProbePending');
    await space.becomes(ASSISTANT, 'ledger', 'Ready', 'False CapsuleNotReady');
    const asked = await uidsOf();
    expect(asked).toHaveLength(1);
    // Another operator finds the question asked and waits for the same answer.
    await space.restartedAndLooked();
    expect(await space.condition(CAPSULE, home, 'SandboxReady')).toBe('Unknown ProbePending');
    expect(await uidsOf()).toEqual(asked);
    expect(await space.get(kinds.DEPLOYMENT, 'ledger', space.namespaceOf(home))).toBeUndefined();
    await space.removed(CAPSULE, home);
  });

  test('that is deleted leaves no probe behind', async () => {
    await space.start();
    await space.capsule(home);
    await space.becomes(CAPSULE, home, 'Ready', READY);
    const [proof] = await probes();
    const metadata = {
      name: 'sandbox-probe-of-gone',
      labels: proof?.metadata.labels,
      annotations: { 'platform.space/node': 'gone' },
    };
    const body = { metadata, spec: { containers: [{ name: 'attest', image: ATTESTER_IMAGE }] } };
    await environment.server.client.call({
      method: 'POST',
      path: `/api/v1/namespaces/${space.names.systemNamespace}/pods`,
      body,
    });
    await space.goes(POD, metadata.name);
    expect(await uidsOf()).toEqual([proof?.metadata.uid]);
    await space.removed(CAPSULE, home);
  });
});

describe('network policies', () => {
  const walls = () => uidsOf(NETWORK_PROBE);

  test('are tested once on a node, and not again by another operator', async () => {
    await space.start();
    await space.settled();
    const first = await walls();
    expect(first).toHaveLength(1);
    await space.rests();
    await space.restartedAndLooked();
    expect(space.run.acts).toEqual([]);
    expect(await walls()).toEqual(first);
    await space.removed(CAPSULE, home);
  });

  test('that are not tested yet prevent a Capsule from being Ready, and its Assistants from being scheduled', async () => {
    space.fates.set(WALLS, 'pending');
    await space.start();
    await space.capsule(home);
    await space.assistant('ledger', { capsule: home });
    await space.becomes(CAPSULE, home, 'NetworkReady', 'Unknown EnforcementUnproven');
    await space.becomes(CAPSULE, home, 'SandboxReady', 'True SandboxAvailable');
    await space.becomes(ASSISTANT, 'ledger', 'Ready', 'False CapsuleNotReady');
    expect(await space.get(kinds.DEPLOYMENT, 'ledger', space.namespaceOf(home))).toBeUndefined();
    await space.removed(CAPSULE, home);
  });

  test('that are not enforced are reported with the node and what was reached, until they are enforced', async () => {
    space.fates.set(WALLS, 'crashes');
    await space.start();
    await space.capsule(home);
    await space.assistant('ledger', { capsule: home });
    await space.becomes(CAPSULE, home, 'Ready', 'False EnforcementFailed');
    expect(await space.message(CAPSULE, home, 'NetworkReady')).toContain(
      `On node "${NODE_NAME}" a pod that may reach only PostgreSQL reached: the API server (10.0.0.1 port 443)`,
    );
    expect(await space.list(POD, space.namespaceOf(home))).toEqual([]);
    space.fates.delete(WALLS);
    await boot();
    await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
    await space.removed(CAPSULE, home);
  });

  test.each(['keep', 'stop'] as const)(
    'that are no longer enforced stop running Assistants only if the chart says so: %s',
    async (onLoss) => {
      await space.start({ onLoss });
      const namespace = await space.settled();
      const pods = async () => (await space.list(POD, namespace)).length;
      space.fates.set(WALLS, 'crashes');
      await boot();
      await space.becomes(CAPSULE, home, 'NetworkReady', 'False EnforcementFailed');
      await space.becomes(ASSISTANT, 'ledger', 'CapsuleReady', 'False CapsuleNotReady');
      if (onLoss === 'keep') expect(await pods()).toBe(1);
      else await eventually(async () => (await pods()) === 0, { what: 'no pod is left' });
      space.fates.delete(WALLS);
      await boot();
      await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
      expect(await pods()).toBe(1);
      await space.removed(CAPSULE, home);
    },
  );

  test('whose probe somebody deleted are tested again, and count as enforced until the result', async () => {
    await space.start();
    await space.capsule(home);
    await space.becomes(CAPSULE, home, 'Ready', READY);
    const [record] = await probes(NETWORK_PROBE);
    await space.delete(POD, record?.metadata.name ?? '');
    await eventually(async () => (await walls()).some((uid) => uid !== record?.metadata.uid), {
      what: 'another probe is there',
    });
    await space.becomes(CAPSULE, home, 'Ready', READY);
    await space.removed(CAPSULE, home);
  });
});

describe('a running Assistant when the sandbox is lost', () => {
  const lose = () => space.delete(RUNTIME_CLASS, space.names.runtimeClass);
  const find = () =>
    environment.server.client.call({
      method: 'POST',
      path: '/apis/node.k8s.io/v1/runtimeclasses',
      body: { metadata: { name: space.names.runtimeClass }, handler: space.names.handler },
    });

  test('continues, unless the chart says to stop', async () => {
    await space.start();
    const namespace = await space.settled();
    const [pod] = await space.list(POD, namespace);
    await lose();
    await space.becomes(ASSISTANT, 'ledger', 'SandboxReady', 'False RuntimeClassNotFound');
    await space.becomes(ASSISTANT, 'ledger', 'WorkloadReady', READY);
    await find();
    await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
    expect((await space.list(POD, namespace)).map(({ metadata }) => metadata.uid)).toEqual([
      pod?.metadata.uid,
    ]);
    await space.removed(CAPSULE, home);
  });

  test('is applied again when the sandbox is back, sooner than the cluster itself would retry', async () => {
    const began = performance.now();
    space.fates.set(IMAGE, 'pending');
    await space.start();
    await space.capsule(home);
    await space.assistant('ledger', { capsule: home });
    const namespace = space.namespaceOf(home);
    await space.becomes(ASSISTANT, 'ledger', 'WorkloadReady', 'False Starting');
    const message = `pods is forbidden: ValidatingAdmissionPolicy '${space.names.space}-sandbox' with binding denied request`;
    await environment.server.client.call({
      method: 'PATCH',
      path: `/apis/apps/v1/namespaces/${namespace}/deployments/ledger/status`,
      contentType: 'application/merge-patch+json',
      body: {
        status: {
          conditions: [{ type: 'ReplicaFailure', status: 'True', reason: 'FailedCreate', message }],
        },
      },
    });
    const annotations = async () =>
      (await space.get(kinds.DEPLOYMENT, 'ledger', namespace))?.metadata.annotations ?? {};
    await eventually(async () => (await annotations())['platform.space/retried-at'], {
      what: 'it is asked for',
    });
    await space.becomes(ASSISTANT, 'ledger', 'WorkloadReady', 'False PodsRefused');
    const asked = space.run.acts.filter(
      (act) => act.startsWith('PATCH') && act.endsWith('/deployments/ledger'),
    );
    // Its making, the question, and another one at least five seconds after each.
    expect(asked.length).toBeGreaterThanOrEqual(2);
    expect(asked.length).toBeLessThanOrEqual(2 + (performance.now() - began) / 5_000);
    await space.removed(CAPSULE, home);
  });

  test('stops if the chart says so, and starts again by itself with its database', async () => {
    await space.start({ onLoss: 'stop' });
    const namespace = await space.settled();
    const url = await space.urlOf('ledger');
    await lose();
    await eventually(async () => (await space.list(POD, namespace)).length === 0, { what: 'no pod is left' });
    await space.becomes(ASSISTANT, 'ledger', 'WorkloadReady', 'Unknown Waiting');
    await find();
    await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
    expect(await space.urlOf('ledger')).toBe(url);
    await space.removed(CAPSULE, home);
  });

  test('stops also if its manifest is no longer valid, and starts again when both are repaired', async () => {
    await space.start({ onLoss: 'stop' });
    const namespace = await space.settled();
    const url = await space.urlOf('ledger');
    const pods = async () => (await space.list(POD, namespace)).length;
    const good = manifest('ledger');
    // As a newer release may have stored it.
    const spec = { manifest: { ...good, platform: { ...good.platform, spec: 2 } } };
    const { client } = environment.server;
    await underAnySchema(client, 'assistants', () => space.patch(ASSISTANT, 'ledger', { spec }));
    await space.becomes(ASSISTANT, 'ledger', 'Accepted', 'False ManifestInvalid');
    expect(await pods()).toBe(1);
    await lose();
    await eventually(async () => (await pods()) === 0, { what: 'no pod is left' });
    await find();
    await space.becomes(ASSISTANT, 'ledger', 'SandboxReady', 'True SandboxAvailable');
    expect(await pods()).toBe(0);
    await space.patch(ASSISTANT, 'ledger', { spec: { manifest: good } });
    await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
    expect(await space.urlOf('ledger')).toBe(url);
    await space.removed(CAPSULE, home);
  });
});

describe('the only node', () => {
  const cordon = (unschedulable: boolean) =>
    environment.server.client.call({
      method: 'PATCH',
      path: `/api/v1/nodes/${NODE_NAME}`,
      contentType: 'application/merge-patch+json',
      body: { spec: { unschedulable } },
    });
  afterEach(() => cordon(false));

  test('that is cordoned stops no Assistant, and a probe waits for another node until it is back', async () => {
    await space.start({ onLoss: 'stop' });
    const namespace = await space.settled();
    const [pod] = await space.list(POD, namespace);
    await cordon(true);
    await space.becomes(ASSISTANT, 'ledger', 'SandboxReady', 'False NoNodeReady');
    const waiting = async () => (await space.list<kinds.Pod>(POD)).filter(isWaitingProbe);
    await eventually(async () => (await waiting()).length === 1, { what: 'a probe waits' });
    const [probe] = await waiting();
    expect([probe?.spec?.nodeName, probe?.spec?.runtimeClassName]).toEqual([
      undefined,
      space.names.runtimeClass,
    ]);
    await space.becomes(ASSISTANT, 'ledger', 'WorkloadReady', READY);
    expect((await space.list(POD, namespace)).map(({ metadata }) => metadata.uid)).toEqual([
      pod?.metadata.uid,
    ]);
    await cordon(false);
    await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
    await eventually(async () => (await waiting()).length === 0, { what: 'none waits any more' });
    await space.removed(CAPSULE, home);
  });
});

describe('a node that is lost', () => {
  const call = (method: 'POST' | 'PATCH', path: string, body: unknown) =>
    environment.server.client.call({
      method,
      path,
      body,
      ...(method === 'PATCH' ? { contentType: 'application/strategic-merge-patch+json' } : {}),
    });
  const node = (status: 'True' | 'Unknown') =>
    call('PATCH', `/api/v1/nodes/${NODE_NAME}/status`, {
      status: { conditions: [{ type: 'Ready', status }] },
    });
  afterEach(() => node('True'));

  test('is named in the condition of the Assistant whose pod is on it, until it is back', async () => {
    await space.start();
    const namespace = await space.settled();
    const [name = ''] = (await space.list(POD, namespace)).map(({ metadata }) => metadata.name);
    const path = `/api/v1/namespaces/${namespace}/pods/${name}`;
    const pod = (status: 'True' | 'False') =>
      call('PATCH', `${path}/status`, { status: { conditions: [{ type: 'Ready', status }] } });
    // As the scheduler did, and as the node's controller does.
    await call('POST', `${path}/binding`, { metadata: { name }, target: { kind: 'Node', name: NODE_NAME } });
    await node('Unknown');
    await pod('False');
    await space.becomes(ASSISTANT, 'ledger', 'WorkloadReady', 'False NodeNotReady');
    expect(await space.message(ASSISTANT, 'ledger', 'WorkloadReady')).toContain(`Node "${NODE_NAME}"`);
    await node('True');
    await pod('True');
    await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
    await space.removed(CAPSULE, home);
  });
});

describe('a node that reports no handlers', () => {
  const report = (runtimeHandlers: readonly object[] | null) =>
    environment.server.client.call({
      method: 'PATCH',
      path: `/api/v1/nodes/${NODE_NAME}/status`,
      contentType: 'application/merge-patch+json',
      body: { status: { runtimeHandlers } },
    });
  beforeEach(async () => {
    await report(null);
    await boot();
  });
  afterEach(() => report([{ name: 'runc' }, { name: 'runsc' }]));

  test('counts only if the chart allows it, and then its probe alone opens the gate', async () => {
    await space.start();
    await space.capsule(home);
    await space.assistant('ledger', { capsule: home });
    await space.becomes(CAPSULE, home, 'SandboxReady', 'Unknown HandlerUnknown');
    await space.becomes(ASSISTANT, 'ledger', 'SandboxReady', 'Unknown HandlerUnknown');
    expect(await probes()).toEqual([]);
    await space.stop();

    await space.start({ handlerReport: 'probe' });
    await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
    expect(await probes()).toHaveLength(1);
    await space.removed(CAPSULE, home);
  });

  test('keeps the gate closed if its probe is not in the sandbox, although the chart accepts probes', async () => {
    space.fates.set(ATTESTER_IMAGE, 'crashes');
    await space.start({ handlerReport: 'probe' });
    await space.capsule(home);
    await space.assistant('ledger', { capsule: home });
    await space.becomes(ASSISTANT, 'ledger', 'SandboxReady', 'False ProbeFailed');
    expect(await space.get(kinds.DEPLOYMENT, 'ledger', space.namespaceOf(home))).toBeUndefined();
    await space.removed(CAPSULE, home);
  });

  test('is not probed if it reports other handlers and not ours, since the report counts more than a probe', async () => {
    await report([{ name: 'runc' }]);
    await space.start({ handlerReport: 'probe' });
    await space.capsule(home);
    await space.becomes(CAPSULE, home, 'SandboxReady', 'False NoNodeWithHandler');
    expect(await probes()).toEqual([]);
    await space.removed(CAPSULE, home);
  });
});
