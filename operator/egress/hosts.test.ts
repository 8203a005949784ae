import { beforeEach, expect, test } from 'vitest';
import { newToken } from '../../brokers/kit/index.ts';
import { eventually } from '../../testing/eventually.ts';
import * as kinds from '../kinds.ts';
import { ANNOTATION } from '../names.ts';
import { INPUT, outside, READY, useGateways } from '../testing/gateway-fixture.ts';
import { manifest } from '../testing/manifest.ts';
import { IMAGE, type TestSpace } from '../testing/space.ts';

const { ASSISTANT, DEPLOYMENT, SECRET, SERVICE } = kinds;
const gateways = useGateways();
const { addReplica, connectTo, make, settles, startReplica, started, strangerIs, touch } = gateways;
let space: TestSpace;
let home: string;
beforeEach(() => {
  ({ space, home } = gateways);
});

test('allowed hosts wait for the acknowledgement of every replica, and removed ones are denied at once', async () => {
  const hosts = { allowed_hosts: ['rates.ecb.org', 'api.bank.org'] };
  await space.assistant('ledger', { capsule: home, manifest: outside(hosts) });
  await space.becomes(ASSISTANT, 'ledger', 'Ready', 'False GatewayUnavailable');
  expect(await space.get(DEPLOYMENT, 'ledger', space.namespaceOf(home))).toBeUndefined();

  await addReplica();
  const second = await addReplica();
  await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
  // Fixed to a port where nothing listens, and known to no DNS: both are past every refusal.
  await settles('api.bank.org', 'upstream_failed');
  await settles('api.bank.org', 'upstream_failed', 1);
  expect(await connectTo('evil.org')).toBe('host_denied');
  const deployment = await space.get<kinds.Deployment>(DEPLOYMENT, 'ledger', space.namespaceOf(home));
  const [container] = deployment?.spec?.template.spec?.containers ?? [];
  expect(container?.env?.map(({ name }) => name)).toEqual(
    expect.arrayContaining([
      'HTTPS_PROXY',
      'https_proxy',
      'NO_PROXY',
      'NODE_USE_ENV_PROXY',
      'EGRESS_URL',
      'EGRESS_TOKEN',
    ]),
  );
  expect(deployment?.spec?.template.spec?.hostAliases).toContainEqual({
    ip: (await space.get<kinds.Service>(SERVICE, 'platform-assistant-egress', space.names.servicesNamespace))
      ?.spec?.clusterIP,
    hostnames: ['assistant-egress'],
  });
  // Whatever the pod knows by name is inside, and not asked of the proxy.
  const names =
    deployment?.spec?.template.spec?.hostAliases?.flatMap(({ hostnames = [] }) => hostnames) ?? [];
  const inside = container?.env?.find((one) => one.name === 'NO_PROXY')?.value?.split(',');
  expect(inside).toEqual([...names, 'localhost', '127.0.0.1', '::1']);

  // Without changes no replica is called.
  await eventually(
    async () => {
      const before = gateways.calls.length;
      await new Promise((resolve) => setTimeout(resolve, 300));
      return gateways.calls.length === before;
    },
    { what: 'rest' },
  );

  // Half of the next manifest cannot be enforced: what it takes away goes all the same, what it adds does not come.
  await space.patch(ASSISTANT, 'ledger', {
    spec: { manifest: { network: { allowed_hosts: ['rates.ecb.org', 'new.bank.org', '*.bank.org'] } } },
  });
  await space.becomes(ASSISTANT, 'ledger', 'EgressReady', 'False HostNotEnforceable');
  await settles('api.bank.org', 'host_denied');
  await settles('api.bank.org', 'host_denied', 1);
  expect(await connectTo('new.bank.org')).toBe('host_denied');

  // A replica that restarts has no policies, and is sent all of them again.
  await space.patch(ASSISTANT, 'ledger', { spec: { manifest: { network: hosts } } });
  await settles('api.bank.org', 'upstream_failed', 1);
  await gateways.replicas[1]?.stop();
  gateways.replicas[1] = await startReplica();
  await started(second, 'containerd://2', '127.0.0.12');
  await settles('api.bank.org', 'upstream_failed', 1);

  await space.removed(ASSISTANT, 'ledger');
  expect(await space.list(SECRET, space.namespaceOf(home))).toEqual([]);
});

test('a principal of another Assistant is not reused', async () => {
  await addReplica();
  const spec = { capsule: home, image: IMAGE, manifest: outside({ allowed_hosts: ['api.bank.org'] }) };
  await eventually(
    async () =>
      (await space.get(kinds.ROLE_BINDING, 'space-operator', space.namespaceOf(home))) !== undefined,
    { what: 'the binding' },
  );
  await make(
    SECRET,
    {
      metadata: { name: 'ledger-egress', annotations: { [ANNOTATION.owner]: 'somebody' } },
      stringData: { EGRESS_TOKEN: newToken('egr').reveal() },
    },
    space.namespaceOf(home),
  );
  const old = await space.get<kinds.SecretObject>(SECRET, 'ledger-egress', space.namespaceOf(home));
  await space.assistant('ledger', spec);
  await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
  const now = await space.get<kinds.SecretObject>(SECRET, 'ledger-egress', space.namespaceOf(home));
  expect(now?.data?.['EGRESS_TOKEN']).not.toBe(old?.data?.['EGRESS_TOKEN']);
});

test.each([
  ['nothing', null],
  ['another', Buffer.from('http://egr:old@assistant-egress:3128').toString('base64')],
])(
  'the URL of the gateway that somebody changed in its Secret to %s is restored, with the same principal',
  async (_, changed) => {
    await addReplica();
    await space.assistant('ledger', {
      capsule: home,
      manifest: outside({ allowed_hosts: ['api.bank.org'] }),
    });
    await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
    const namespace = space.namespaceOf(home);
    const read = async () => (await space.get<kinds.SecretObject>(SECRET, 'ledger-egress', namespace))?.data;
    const made = await read();
    await space.patch(SECRET, 'ledger-egress', { data: { HTTPS_PROXY: changed } }, namespace);
    await touch();
    const restored = async () => {
      expect(await read()).toEqual(made);
      return true;
    };
    await eventually(restored, { what: 'the URL is back' });
  },
);

test('a replica that could not be told about removed hosts is told as soon as it can be reached', async () => {
  await addReplica();
  await space.assistant('ledger', { capsule: home, manifest: outside({ allowed_hosts: ['api.bank.org'] }) });
  await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
  await settles('api.bank.org', 'upstream_failed');
  const [replica] = gateways.replicas;
  // Cut off from the operator, not from its callers.
  gateways.cut = true;
  await space.patch(ASSISTANT, 'ledger', { spec: { manifest: { network: { allowed_hosts: [] } } } });
  await space.becomes(ASSISTANT, 'ledger', 'EgressReady', 'True NotNeeded');
  expect(await connectTo('api.bank.org')).toBe('upstream_failed');
  gateways.cut = false;
  await settles('api.bank.org', 'host_denied');
  expect(gateways.replicas[0]).toBe(replica);
});

test('a replica that is lost with its node is not called again and again, and is told once it is back', async () => {
  await addReplica();
  await space.assistant('ledger', { capsule: home, manifest: outside({ allowed_hosts: ['api.bank.org'] }) });
  const lost = await addReplica();
  await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
  await settles('api.bank.org', 'upstream_failed', 1);
  gateways.away = '127.0.0.12';
  gateways.calls.length = 0;
  await started(lost, 'containerd://1', '127.0.0.12', false);
  await eventually(() => gateways.calls.includes('replica.state'), { what: 'the operator knows' });
  const failed = () =>
    space.logs.filter(
      (line) => line.includes('"controller":"assistant"') && line.includes('reconcile failed'),
    );
  await space.patch(ASSISTANT, 'ledger', { spec: { manifest: { network: { allowed_hosts: [] } } } });
  await settles('api.bank.org', 'host_denied');
  await space.becomes(ASSISTANT, 'ledger', 'EgressReady', 'True NotNeeded');
  await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
  expect(failed()).toEqual([]);
  gateways.away = undefined;
  await started(lost, 'containerd://1', '127.0.0.12');
  await settles('api.bank.org', 'host_denied', 1);
});

test('a replica is up to date before it is ready if there is no Assistant', async () => {
  await addReplica(false);
  await strangerIs('forbidden');
  // A call that was too late is repeated.
  expect([...new Set(gateways.calls)]).toEqual(['replica.state', 'replica.in_step']);
});

test('a replica that restarts has every policy before it is up to date, whatever is wrong with some Assistants', async () => {
  const name = await addReplica();
  await space.assistant('ledger', { capsule: home, manifest: outside({ allowed_hosts: ['api.bank.org'] }) });
  await space.assistant('bad', {
    capsule: home,
    manifest: manifest('bad', { network: { allowed_hosts: ['*.bank.org'] } }),
  });
  await space.assistant('unbound', {
    capsule: home,
    manifest: manifest('unbound', { network: { allowed_hosts: [] }, stored_inputs: { bank: INPUT } }),
  });
  await space.assistant('asleep', {
    capsule: home,
    suspend: true,
    manifest: manifest('asleep', { network: { allowed_hosts: ['a.org'] } }),
  });
  await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
  await space.becomes(ASSISTANT, 'unbound', 'InputsBound', 'False InputsMissing');
  await gateways.replicas[0]?.stop();
  gateways.replicas[0] = await startReplica();
  gateways.calls.length = 0;
  await started(name, 'containerd://2', '127.0.0.11', false);
  await strangerIs('forbidden');
  const first = gateways.calls.slice(0, gateways.calls.indexOf('replica.in_step'));
  expect(first).toContain('policy.put');
  expect(await connectTo('api.bank.org')).toBe('upstream_failed');
});

test('a replica that starts while there is no operator asks its callers to wait for one', async () => {
  await space.assistant('ledger', { capsule: home, manifest: outside({ allowed_hosts: ['api.bank.org'] }) });
  const name = await addReplica();
  await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
  await space.stop();
  await gateways.replicas[0]?.stop();
  gateways.replicas[0] = await startReplica();
  await started(name, 'containerd://2', '127.0.0.11', false);
  await strangerIs('unavailable');
  expect(await connectTo('api.bank.org')).toBe('unavailable');
  gateways.calls.length = 0;
  await space.start({ callReplica: gateways.callReplica });
  await strangerIs('forbidden');
  expect(gateways.calls.indexOf('policy.put')).toBeLessThan(gateways.calls.indexOf('replica.in_step'));
  expect(await connectTo('api.bank.org')).toBe('upstream_failed');
});
