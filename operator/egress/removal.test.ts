/** The end of an Assistant, whose principal no replica of the gateway may admit any more when its data ends. */
import { beforeEach, expect, test } from 'vitest';
import { eventually } from '../../testing/eventually.ts';
import * as kinds from '../kinds.ts';
import type { Resource } from '../runtime/kube-object.ts';
import { READY, useGateways } from '../testing/gateway-fixture.ts';
import { manifest } from '../testing/manifest.ts';
import type { TestSpace } from '../testing/space.ts';
import { replicaOf } from './replicas.ts';

const { ASSISTANT, CAPSULE, DEPLOYMENT, POD, SECRET } = kinds;
const DEAF = '127.0.0.12';
const UNHEARD = 'False GatewayNotAcknowledged';
const HOST = 'api.bank.org';
const gateways = useGateways();
let space: TestSpace;
let home: string;
/** The name of the second replica's pod, and the databases that there are with Assistant `ledger`. */
let deaf: string;
let databases: string[];
/** How that replica answers the principal of `ledger`, also when its Secret is gone. */
let admits: (host: string) => Promise<string>;

beforeEach(async () => {
  ({ space, home } = gateways);
  await gateways.addReplica();
  deaf = await gateways.addReplica();
  await opened('ledger');
  await gateways.settles(HOST, 'upstream_failed', 1);
  admits = await gateways.asNow(1);
  databases = await gateways.environment.databases();
});

async function opened(id: string): Promise<void> {
  await space.assistant(id, {
    capsule: home,
    manifest: manifest(id, { network: { allowed_hosts: [HOST] } }),
  });
  await space.becomes(ASSISTANT, id, 'Ready', READY);
}

const again = async (options: Parameters<TestSpace['start']>[0] = {}) => {
  await space.stop();
  await space.start({ callReplica: gateways.callReplica, ...options });
};

/** The second replica no longer hears the operator, and its callers reach it. */
const goesDeaf = () => {
  gateways.away = DEAF;
};
const hearsAgain = () => {
  gateways.away = undefined;
};

/** The operator has told the removal once more. */
async function toldAgain(): Promise<void> {
  gateways.calls.length = 0;
  await eventually(() => gateways.calls.filter((call) => call === 'policy.remove').length > 2, {
    what: 'the removal is told again',
  });
}

async function namesIt(resource: Resource, name: string): Promise<void> {
  const message = await space.message(resource, name, 'Finalized');
  expect(message).toContain(`principal: ${deaf}.`);
  expect(message).not.toContain('egress-1');
}

const noDeployments = () =>
  eventually(async () => (await space.list(DEPLOYMENT, space.namespaceOf(home))).length === 0, {
    what: 'no Deployment is left',
  });

test.each([
  ['serves callers', true],
  ['is not Ready for a moment', false],
])(
  'the data of an Assistant ends after each replica has acknowledged that it is removed: one that %s',
  async (_, ready) => {
    goesDeaf();
    await gateways.started(deaf, 'containerd://1', DEAF, ready);
    await space.delete(ASSISTANT, 'ledger');
    await space.becomes(ASSISTANT, 'ledger', 'Finalized', UNHEARD);
    await namesIt(ASSISTANT, 'ledger');
    // Another operator, which remembers nothing.
    await again();
    await toldAgain();
    expect(await space.condition(ASSISTANT, 'ledger', 'Finalized')).toBe(UNHEARD);
    expect(await admits(HOST)).toBe('upstream_failed');
    expect(await gateways.environment.databases()).toEqual(databases);
    hearsAgain();
    await space.goes(ASSISTANT, 'ledger');
    expect(await admits(HOST)).toBe('forbidden');
    expect((await gateways.environment.databases()).length).toBeLessThan(databases.length);
    expect(await space.list(SECRET, space.namespaceOf(home))).toEqual([]);
  },
);

test.each<[string, () => Promise<unknown>]>([
  ['is gone', () => space.delete(POD, deaf, space.names.servicesNamespace)],
  [
    'should have ended with its pod, so that its node is lost',
    async () => {
      const { servicesNamespace } = space.names;
      await space.patch(POD, deaf, { metadata: { finalizers: ['test.example/kubelet'] } }, servicesNamespace);
      await space.delete(POD, deaf, servicesNamespace);
    },
  ],
])('the end of an Assistant does not wait for a replica that %s', async (_, end) => {
  goesDeaf();
  await space.delete(ASSISTANT, 'ledger');
  await space.becomes(ASSISTANT, 'ledger', 'Finalized', UNHEARD);
  await end();
  await space.goes(ASSISTANT, 'ledger');
  if (await space.get(POD, deaf, space.names.servicesNamespace))
    await space.patch(POD, deaf, { metadata: { finalizers: null } }, space.names.servicesNamespace);
});

test('in its grace period an Assistant is closed to everybody, whatever replica is missing, and the condition names that', async () => {
  await again({ graceMs: 3_600_000 });
  goesDeaf();
  await space.delete(ASSISTANT, 'ledger');
  await space.becomes(ASSISTANT, 'ledger', 'Finalized', 'False RetentionGrace');
  await namesIt(ASSISTANT, 'ledger');
  const claim = await space.get<kinds.SecretObject>(SECRET, 'ledger-database', space.namespaceOf(home));
  expect([claim !== undefined, claim?.data]).toEqual([true, undefined]);
  await toldAgain();
  hearsAgain();
  const heard = async () => !(await space.message(ASSISTANT, 'ledger', 'Finalized')).includes(deaf);
  await eventually(heard, { what: 'the condition names no replica' });
  expect(await admits(HOST)).toBe('forbidden');
  expect(await gateways.environment.databases()).toEqual(databases);
});

const strip = (id: string) => space.patch(ASSISTANT, id, { metadata: { finalizers: null } });

test('the data of a Capsule waits for the removal of an Assistant whose finalizer was removed by force', async () => {
  await space.stop();
  await strip('ledger');
  await space.removed(ASSISTANT, 'ledger');
  await space.delete(CAPSULE, home);
  goesDeaf();
  await space.start({ callReplica: gateways.callReplica });
  await space.becomes(CAPSULE, home, 'Finalized', UNHEARD);
  await namesIt(CAPSULE, home);
  await again();
  await toldAgain();
  expect(await gateways.environment.databases()).toEqual(databases);
  hearsAgain();
  await space.goes(CAPSULE, home);
  expect(await admits(HOST)).toBe('forbidden');
});

test('an Assistant whose finalizer was removed by force does not run on while another one waits for a replica', async () => {
  await opened('a-second');
  goesDeaf();
  await strip('ledger');
  await space.removed(ASSISTANT, 'ledger');
  await toldAgain();
  await strip('a-second');
  await space.removed(ASSISTANT, 'a-second');
  await noDeployments();
  hearsAgain();
  const forgotten = async () => (await admits(HOST)) === 'forbidden';
  await eventually(forgotten, { what: 'the first one is admitted nowhere' });
});

test('a replica is given up when the time in which its pod was to end is over', () => {
  const pod = (deletionTimestamp?: string): kinds.Pod => ({
    metadata: { name: deaf, uid: 'one', ...(deletionTimestamp === undefined ? {} : { deletionTimestamp }) },
    status: { phase: 'Running', podIP: DEAF, conditions: [{ type: 'Ready', status: 'True' }] },
  });
  const lost = (at?: number) => replicaOf(pod(at === undefined ? at : new Date(at).toISOString()));
  expect(lost()).toMatchObject({ serving: true, lost: false });
  expect(lost(Date.now() + 3_600_000)).toMatchObject({ serving: false, lost: false });
  expect(lost(Date.now() - 3_600_000)).toMatchObject({ serving: false, lost: true });
});
