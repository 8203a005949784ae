import { pino } from 'pino';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { eventually } from '../../testing/eventually.ts';
import { no, yes } from '../conditions.ts';
import type { Context } from '../context.ts';
import type { Assistant } from '../kinds.ts';
import { LABEL } from '../names.ts';
import { runController } from '../runtime/controller.ts';
import { type Key, keyOf } from '../runtime/kube-object.ts';
import { Queue } from '../runtime/queue.ts';
import { makeStores } from '../stores.ts';
import { type FakeClock, fakeClock } from '../testing/fake-clock.ts';
import { egressGateways } from './gateways.ts';
import { keepInStep } from './in-step.ts';
import { type CallReplica, ReplicaError } from './replica.ts';
import { replicasIn } from './replicas.ts';

/** The result of an Assistant's reconcile, and of its calls to the gateway. */
type Fate = 'told' | 'says-nothing' | 'fails-before' | 'fails-after' | 'is-refused' | 'hangs';

const NAMES = {
  space: 's',
  namespace: 'home',
  systemNamespace: 'home-system',
  servicesNamespace: 'services',
};
let clock: FakeClock;
let stores: ReturnType<typeof makeStores>;
let queues: { assistants: Queue; gateways: Queue };
let fates: Map<string, Fate>;
let open: boolean;
let version: number;
/** For each pod, by address: its present start and the Assistants that it received; undefined while it does not answer. */
let replicas: Map<string, { instance: string; inStep: boolean; told: string[] } | undefined>;
let calls: string[];
let hung: PromiseWithResolvers<void>;

const callReplica: CallReplica = async ({ address }, operation, body) => {
  calls.push(operation);
  const replica = replicas.get(address);
  if (!replica) throw new ReplicaError('nothing');
  const { instance } = replica;
  if (operation === 'replica.state') return { in_step: replica.inStep, instance } as never;
  if (operation === 'replica.in_step') {
    if ((body as typeof replica).instance !== instance) throw new ReplicaError('conflict');
    replica.inStep = true;
    return { instance } as never;
  }
  const { app_id, revision } = body as { app_id: string; revision: string };
  if (fates.get(app_id) === 'is-refused') throw new ReplicaError('invalid_request');
  replica.told.push(app_id);
  return { revision, reentry: [], resealed: {}, instance } as never;
};

beforeEach(() => {
  clock = fakeClock();
  stores = makeStores();
  queues = { assistants: new Queue({ clock }), gateways: new Queue({ clock }) };
  fates = new Map();
  replicas = new Map();
  calls = [];
  open = true;
  version = 0;
  hung = Promise.withResolvers();
});
afterEach(() => {
  hung.resolve();
  for (const queue of Object.values(queues)) queue.close();
});

/** A new operator, which does not know what an earlier one has sent. */
function lead(): void {
  const gateways = egressGateways(() => replicasIn(stores, NAMES as Context['names']), callReplica);
  const context = {
    stores,
    names: NAMES,
    gateways,
    gate: () => (open ? yes('Ready', '') : no('RuntimeClassNotFound', '')),
    log: pino({ level: 'silent' }),
  } as unknown as Context;
  const inStep = keepInStep({ clock, queues });
  const work = async ({ stores, gateways }: Context, key: Key, signal: AbortSignal) => {
    const assistant = stores.assistants.get(key);
    const fate = assistant && fates.get(assistant.metadata.name ?? '');
    if (!assistant || fate === 'says-nothing') return {};
    if (fate === 'hangs') await hung.promise;
    if (fate === 'fails-before') throw new Error('the API server is away');
    const app_id = assistant.metadata.name ?? '';
    const about = { capsule_id: assistant.spec.capsule, app_id, assistant_uid: app_id };
    const content = { generation: 1, revision: 'r', principals: [], allowed_hosts: [] };
    await gateways.put({ ...about, ...content, stored_inputs: {} }, () => [], signal);
    if (fate === 'fails-after') throw new Error('its database does not answer');
    return {};
  };
  const run = (name: 'gateway' | 'assistant', queue: Queue, reconcile: typeof work) =>
    void runController({
      name,
      queue,
      workers: 4,
      deadlineMs: 1e9,
      reconcile: (key, signal) => reconcile(context, key, signal),
    });
  run('gateway', queues.gateways, inStep.reconcile);
  run('assistant', queues.assistants, inStep.watching(work));
}

function assistant(name: string, fate: Fate = 'told', deleting = false): void {
  fates.set(name, fate);
  version += 1;
  const object = {
    metadata: {
      name,
      namespace: 'home',
      uid: name,
      resourceVersion: String(version),
      ...(deleting ? { deletionTimestamp: 'now' } : {}),
    },
    spec: { capsule: 'c', image: 'i', manifest: { platform: { id: name } } },
  } as unknown as Assistant;
  stores.assistants.set(object);
}

/** A replica's start, and its pod, which is not ready. */
function replica(at: string, instance: string, container = instance): void {
  replicas.set(at, { instance, inStep: false, told: [] });
  pod(at, container);
}
function pod(at: string, container: string): void {
  version += 1;
  const object = {
    metadata: {
      name: at,
      namespace: 'services',
      uid: at,
      resourceVersion: String(version),
      labels: { [LABEL.component]: 'egress' },
    },
    status: {
      phase: 'Running',
      podIP: at,
      conditions: [{ type: 'Ready', status: 'False' }],
      containerStatuses: [{ name: 'egress', containerID: container, started: true }],
    },
  };
  stores.pods.set(object);
  queues.gateways.add(keyOf(object));
}

const inStep = (at = '10.0.0.1') => replicas.get(at)?.inStep;
const becomes = (at = '10.0.0.1') => eventually(() => inStep(at) === true, { what: `${at} is in step` });
/** Until all has been done that waits for no clock. */
async function rest(): Promise<void> {
  let before = -1;
  while (calls.length !== before) {
    before = calls.length;
    for (let i = 0; i < 50; i++) await new Promise((resolve) => setImmediate(resolve));
  }
}

test('without Assistants a replica is up to date at once, although it is not ready', async () => {
  lead();
  replica('10.0.0.1', 'a');
  await becomes();
});

test('a replica is up to date only once the policies of all Assistants were sent', async () => {
  for (const name of ['one', 'two', 'three']) assistant(name);
  fates.set('two', 'hangs');
  lead();
  replica('10.0.0.1', 'a');
  await rest();
  expect(replicas.get('10.0.0.1')?.told.toSorted()).toEqual(['one', 'three']);
  clock.advance(10 * 60_000);
  await rest();
  expect(inStep()).toBe(false);
  hung.resolve();
  await becomes();
  expect(replicas.get('10.0.0.1')?.told).toContain('two');
});

test.each(['says-nothing', 'fails-after', 'is-refused'] as const)(
  'an Assistant that %s delays no replica with its fault',
  async (fate) => {
    assistant('good');
    assistant('bad', fate);
    lead();
    replica('10.0.0.1', 'a');
    await becomes();
    expect(replicas.get('10.0.0.1')?.told).toContain('good');
    expect(clock.now()).toBe(0);
  },
);

test('an Assistant in deletion is not waited for', async () => {
  assistant('gone', 'hangs', true);
  lead();
  replica('10.0.0.1', 'a');
  await becomes();
});

test('an Assistant whose reconcile failed is retried, and waited for a limited time', async () => {
  assistant('late', 'fails-before');
  lead();
  replica('10.0.0.1', 'a');
  await rest();
  expect(inStep()).toBe(false);
  fates.set('late', 'told');
  clock.advance(2_000);
  await becomes();
  expect(replicas.get('10.0.0.1')?.told).toEqual(['late']);

  assistant('never', 'fails-before');
  replica('10.0.0.1', 'b');
  for (let i = 0; i < 29; i++) {
    await rest();
    clock.advance(2_000);
  }
  await rest();
  expect(inStep()).toBe(false);
  for (let i = 0; i < 3; i++) {
    clock.advance(2_000);
    await rest();
  }
  expect(inStep()).toBe(true);
});

test('a replica that does not answer triggers no reconciles, and does not count as up to date after the time limit', async () => {
  assistant('one');
  lead();
  pod('10.0.0.1', 'a');
  for (let i = 0; i < 60; i++) {
    await rest();
    clock.advance(5_000);
  }
  expect(new Set(calls)).toEqual(new Set(['replica.state']));
  replica('10.0.0.1', 'a');
  await becomes();
  expect(replicas.get('10.0.0.1')?.told).toEqual(['one']);
});

test('a replica that restarts unnoticed is not mistaken for the start that received the policies', async () => {
  assistant('one');
  assistant('slow', 'hangs');
  lead();
  replica('10.0.0.1', 'a');
  await rest();
  // Another process in the same container, as far as anybody can see.
  replicas.set('10.0.0.1', { instance: 'b', inStep: false, told: [] });
  hung.resolve();
  await rest();
  for (let i = 0; i < 3; i++) {
    clock.advance(5_000);
    await rest();
  }
  await becomes();
  expect(new Set(replicas.get('10.0.0.1')?.told)).toEqual(new Set(['one', 'slow']));
});

test('each replica is waited for separately, and each of its starts again', async () => {
  assistant('one');
  lead();
  replica('10.0.0.1', 'a');
  await becomes();
  replica('10.0.0.2', 'b');
  replica('10.0.0.1', 'c');
  await becomes('10.0.0.2');
  await becomes('10.0.0.1');
  expect([...replicas.values()].map((one) => one?.told)).toEqual([['one'], ['one']]);
});

test('an operator that starts asks an up-to-date replica once, and calls none while nothing changes', async () => {
  replica('10.0.0.1', 'a');
  assistant('one');
  Object.assign(replicas.get('10.0.0.1') ?? {}, { inStep: true });
  lead();
  await rest();
  expect(calls).toEqual(['replica.state']);
  for (let i = 0; i < 10; i++) {
    clock.advance(60_000);
    await rest();
  }
  expect(calls).toEqual(['replica.state']);
});

test('while the gate is closed no policy is sent, so a replica waits for it, but not without limit', async () => {
  assistant('one');
  open = false;
  lead();
  replica('10.0.0.1', 'a');
  await rest();
  clock.advance(2_000);
  await rest();
  expect(inStep()).toBe(false);
  open = true;
  clock.advance(2_000);
  await becomes();

  open = false;
  replica('10.0.0.1', 'b');
  for (let i = 0; i < 31; i++) {
    await rest();
    clock.advance(2_000);
  }
  await becomes();
});
