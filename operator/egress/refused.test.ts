import { randomUUID } from 'node:crypto';
import { beforeEach, expect, test } from 'vitest';
import { eventually } from '../../testing/eventually.ts';
import * as kinds from '../kinds.ts';
import { ANNOTATION } from '../names.ts';
import { BOUND, INPUT, outside, READY, useGateways, VALUE } from '../testing/gateway-fixture.ts';
import type { TestSpace } from '../testing/space.ts';

const { ASSISTANT, CAPSULE } = kinds;
const gateways = useGateways();
const {
  addReplica,
  asks,
  connectTo,
  enter,
  make,
  replacedAt,
  say,
  settles,
  startReplica,
  started,
  strangerIs,
  touch,
  useOf,
} = gateways;
let space: TestSpace;
let home: string;
beforeEach(() => {
  ({ space, home } = gateways);
});

test.each<[reason: string, refuse: () => Promise<unknown>]>([
  // spec.storedInputs still names the input, so the Assistant is not accepted.
  ['StoredInputUnknown', async () => {}],
  ['QuotaExceeded', () => space.patch(CAPSULE, home, { spec: { quota: { assistants: 0 } } })],
])(
  'what a manifest gives up ends at once, also of an Assistant that is refused with %s',
  async (reason, refuse) => {
    await addReplica();
    await enter(VALUE);
    const asked = outside({ allowed_hosts: ['api.bank.org'] }, { bank: INPUT });
    await space.assistant('ledger', { capsule: home, manifest: asked, storedInputs: BOUND });
    await say('Ready', READY);
    await settles('api.bank.org', 'upstream_failed');
    await refuse();
    const storedInputs = reason === 'StoredInputUnknown' ? BOUND : null;
    const less = { network: { allowed_hosts: [] }, stored_inputs: { bank: null } };
    await space.patch(ASSISTANT, 'ledger', { spec: { manifest: less, storedInputs } });
    await say('Accepted', `False ${reason}`);
    await settles('api.bank.org', 'host_denied');
  },
);

test('running pods keep their access while the sandbox is not ready, also at other addresses and at a replica that restarts', async () => {
  const name = await addReplica();
  const hosts = { allowed_hosts: ['api.bank.org', 'rates.ecb.org'] };
  await space.assistant('ledger', { capsule: home, manifest: outside(hosts) });
  await say('Ready', READY);
  await settles('api.bank.org', 'upstream_failed');
  await space.delete(kinds.RUNTIME_CLASS, space.names.runtimeClass);
  await say('SandboxReady', 'False RuntimeClassNotFound');
  await replacedAt('127.0.0.2');
  const movedTo = (code: string) => settles('api.bank.org', code, 0, '127.0.0.2');
  await movedTo('upstream_failed');
  await gateways.replicas[0]?.stop();
  gateways.replicas[0] = await startReplica();
  await started(name, 'containerd://2', '127.0.0.11');
  await movedTo('upstream_failed');
  await say('SandboxReady', 'False RuntimeClassNotFound');

  // What another manifest asks for is not added meanwhile, and what it gives up goes.
  const other = { allowed_hosts: ['new.bank.org', 'rates.ecb.org'] };
  await space.patch(ASSISTANT, 'ledger', { spec: { manifest: { network: other } } });
  await movedTo('host_denied');
  expect(await connectTo('new.bank.org', 0, '127.0.0.2')).toBe('host_denied');
});

test.each<[reason: string, refuse: () => Promise<unknown>]>([
  ['StoredInputUnknown', () => space.patch(ASSISTANT, 'ledger', { spec: { storedInputs: BOUND } })],
  ['QuotaExceeded', () => space.patch(CAPSULE, home, { spec: { quota: { assistants: 0 } } })],
])(
  'a pod that replaces one of an Assistant refused with %s has what it had, and nothing more',
  async (reason, refuse) => {
    await addReplica();
    await addReplica();
    const hosts = { allowed_hosts: ['api.bank.org', 'rates.ecb.org'] };
    await space.assistant('ledger', { capsule: home, manifest: outside(hosts) });
    await say('Ready', READY);
    await settles('api.bank.org', 'upstream_failed');
    await refuse();
    await say('Accepted', `False ${reason}`);
    await replacedAt('127.0.0.2');
    await settles('api.bank.org', 'upstream_failed', 0, '127.0.0.2');
    await settles('api.bank.org', 'upstream_failed', 1, '127.0.0.2');
    expect(await connectTo('api.bank.org')).toBe('forbidden');

    // Another manifest takes away and adds nothing, also for the next pod, and also if it asks for a host again.
    const asks = (...allowed_hosts: string[]) =>
      space.patch(ASSISTANT, 'ledger', { spec: { manifest: { network: { allowed_hosts } } } });
    await asks('api.bank.org', 'new.bank.org');
    await settles('rates.ecb.org', 'host_denied', 0, '127.0.0.2');
    await asks('api.bank.org', 'new.bank.org', 'rates.ecb.org');
    await replacedAt('127.0.0.3');
    await settles('api.bank.org', 'upstream_failed', 0, '127.0.0.3');
    for (const host of ['new.bank.org', 'rates.ecb.org'])
      expect(await connectTo(host, 0, '127.0.0.3')).toBe('host_denied');
    await say('Accepted', `False ${reason}`);
  },
);

/** The gateway's only replica restarts, and is up to date afterwards. */
async function restarts(name: string): Promise<void> {
  await gateways.replicas[0]?.stop();
  gateways.replicas[0] = await startReplica();
  await started(name, `containerd://${randomUUID()}`, '127.0.0.11', false);
  await strangerIs('forbidden');
}

/** A running Assistant, with two hosts and a stored input; returns the name of its manifest's ConfigMap. */
async function runs(): Promise<string> {
  await enter(VALUE);
  const hosts = { allowed_hosts: ['api.bank.org', 'rates.ecb.org'] };
  const asked = outside(hosts, { bank: INPUT });
  await space.assistant('ledger', { capsule: home, manifest: asked, storedInputs: BOUND });
  await say('Ready', READY);
  await settles('api.bank.org', 'upstream_failed');
  expect(await useOf('bank')).toBe('upstream_failed');
  const maps = await space.list<kinds.ConfigMap>(kinds.CONFIG_MAP, space.namespaceOf(home));
  return maps.find(({ metadata: { name } }) => name.startsWith('ledger-manifest-'))?.metadata.name ?? '';
}

const approve = (manifestName: string) =>
  space.patch(ASSISTANT, 'ledger', {
    metadata: { annotations: { [ANNOTATION.approved]: `sha256:${manifestName.split('-').at(-1)}` } },
  });

/** Another manifest gives up a host and asks for one. */
const OTHER_HOSTS = { network: { allowed_hosts: ['api.bank.org', 'new.bank.org'] } };

test.each<[reason: string, type: string, refuse: (manifestName: string) => Promise<unknown>]>([
  [
    'StoredInputUnknown',
    'Accepted',
    () => space.patch(ASSISTANT, 'ledger', { spec: { storedInputs: { ...BOUND, other: BOUND.bank } } }),
  ],
  ['QuotaExceeded', 'Accepted', () => space.patch(CAPSULE, home, { spec: { quota: { assistants: 0 } } })],
  [
    'InputsMissing',
    'InputsBound',
    () => space.patch(ASSISTANT, 'ledger', { spec: { manifest: { stored_inputs: { other: INPUT } } } }),
  ],
  [
    'ApprovalMissing',
    'IntegrationsGranted',
    async (manifestName) => {
      await approve(manifestName);
      await space.patch(CAPSULE, home, { spec: { approval: 'manual' } });
    },
  ],
])(
  'a replica that restarts while an Assistant is refused with %s gives its pods what they had, and nothing more',
  async (reason, type, refuse) => {
    const name = await addReplica();
    await refuse(await runs());
    await space.patch(ASSISTANT, 'ledger', { spec: { manifest: OTHER_HOSTS } });
    await say(type, `False ${reason}`);
    await settles('rates.ecb.org', 'host_denied');
    await restarts(name);
    await settles('api.bank.org', 'upstream_failed');
    expect(await useOf('bank')).toBe('upstream_failed');
    for (const host of ['rates.ecb.org', 'new.bank.org']) expect(await connectTo(host)).toBe('host_denied');
    await say(type, `False ${reason}`);
  },
);

test('a replica that restarts has nothing of pods whose manifest is approved no more', async () => {
  const name = await addReplica();
  const manifestName = await runs();
  await approve(manifestName);
  await space.patch(CAPSULE, home, { spec: { approval: 'manual' } });
  await space.patch(ASSISTANT, 'ledger', { spec: { manifest: OTHER_HOSTS } });
  await say('IntegrationsGranted', 'False ApprovalMissing');
  await space.patch(ASSISTANT, 'ledger', { metadata: { annotations: { [ANNOTATION.approved]: null } } });
  await restarts(name);
  expect(await connectTo('api.bank.org')).toBe('forbidden');
});

test('a replica that restarts has nothing of another text in the place of the manifest that pods run', async () => {
  const name = await addReplica();
  const manifestName = await runs();
  await space.patch(CAPSULE, home, { spec: { quota: { assistants: 0 } } });
  await space.patch(ASSISTANT, 'ledger', { spec: { manifest: OTHER_HOSTS } });
  await say('Accepted', 'False QuotaExceeded');
  const namespace = space.namespaceOf(home);
  const found = await space.get<kinds.ConfigMap>(kinds.CONFIG_MAP, manifestName, namespace);
  const text = found?.data?.['manifest.json'] ?? '';
  const replaced = async (text: string) => {
    await space.delete(kinds.CONFIG_MAP, manifestName, namespace);
    const { labels, annotations } = found?.metadata ?? {};
    const metadata = { name: manifestName, labels, annotations };
    await make(kinds.CONFIG_MAP, { metadata, data: { 'manifest.json': text } }, namespace);
  };
  await replaced(text.replace('rates.ecb.org', 'new.bank.org'));
  await restarts(name);
  for (const host of ['new.bank.org', 'api.bank.org']) expect(await connectTo(host)).toBe('forbidden');
  // With its own text it is the manifest that they run.
  await replaced(text);
  await touch();
  await settles('api.bank.org', 'upstream_failed');
});

test('a replica that restarts while an Assistant is refused gets no value that its host returned, or that is for another host', async () => {
  const name = await addReplica();
  await runs();
  const other = { allowed_hosts: ['api.bank.org'] };
  await space.patch(CAPSULE, home, { spec: { quota: { assistants: 0 } } });
  await say('Accepted', 'False QuotaExceeded');
  await space.patch(ASSISTANT, 'ledger', {
    spec: { manifest: { network: other, stored_inputs: { bank: { host: 'api.other.org' } } } },
  });
  await restarts(name);
  await settles('api.bank.org', 'upstream_failed');
  expect(await useOf('bank')).toBe('not_found');
  await asks({ host: INPUT.host });
  gateways.reflected = ['bank'];
  await touch();
  const told = async () => (await space.events('ledger')).some(({ reason }) => reason === 'InputReflected');
  await eventually(told, { what: 'the Event' });
  gateways.reflected = [];
  await restarts(name);
  await settles('api.bank.org', 'upstream_failed');
  expect(await useOf('bank')).toBe('not_found');
});
