import { createHash, randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Secret } from '@space/contracts/secret';
import { definitionDigest, definitionOf } from '@space/manifests';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { readConfig } from '../../brokers/egress/config.ts';
import { type Service, startService } from '../../brokers/egress/service.ts';
import { createLogger, newToken } from '../../brokers/kit/index.ts';
import { eventually } from '../../testing/eventually.ts';
import * as kinds from '../kinds.ts';
import { ANNOTATION, LABEL, STORED_INPUT_TYPE } from '../names.ts';
import { pathOf } from '../runtime/kube-object.ts';
import { manifest } from '../testing/manifest.ts';
import { IMAGE, type TestSpace } from '../testing/space.ts';
import { openTestEnvironment, type TestEnvironment } from '../testing/test-environment.ts';
import { type CallReplica, replicaCaller } from './replica.ts';

const { ASSISTANT, CAPSULE, DEPLOYMENT, POD, SECRET, SERVICE } = kinds;
const READY = 'True Ready';
const VALUE = 'sk_live_canary_9f3b51';
const token = newToken('prv').reveal();
const INPUT = {
  kind: 'password',
  label: 'Bank key',
  description: 'Reads rates.',
  help_url: 'https://help.bank.org/keys',
  host: 'api.bank.org',
  routes: [{ method: 'GET', path: '/v1/rates' }],
  header: 'X-Api-Key',
};

let environment: TestEnvironment;
let space: TestSpace;
let home: string;
let directory: string;
let replicas: Service[];
let callReplica: CallReplica;
/** What replicas were asked, and what of it the operator had an answer to. */
let calls: string[];
let answered: string[];
let cut: boolean;
/** Further values that replicas report as returned by their hosts. */
let reflected: readonly string[];

beforeAll(async () => {
  environment = await openTestEnvironment();
  directory = mkdtempSync(join(tmpdir(), 'space-operator-egress-'));
  writeFileSync(join(directory, 'token'), token);
});
afterAll(async () => {
  await environment?.close();
  rmSync(directory, { recursive: true, force: true });
});
beforeEach(async () => {
  keep('k1');
  replicas = [];
  calls = [];
  answered = [];
  cut = false;
  reflected = [];
  space = await environment.space();
  home = space.home;
  await make(SERVICE, { metadata: named('platform-assistant-egress'), spec: { ports: [{ port: 80 }] } });
  // All are on loopback, and are distinguished by the addresses of their pods and by port.
  callReplica = async (replica, operation, ...rest) => {
    const at = Number(replica.address.split('.').at(-1)) - 11;
    calls.push(operation);
    const port = cut ? 1 : (replicas[at]?.controlPort ?? 1);
    const call = replicaCaller({ port, token: async () => new Secret(token) });
    const answer = await call({ ...replica, address: '127.0.0.1' }, operation, ...rest);
    answered.push(operation);
    if (operation === 'input.suspended' && reflected.length > 0)
      Object.assign(answer as object, { suspended: reflected });
    return answer;
  };
  await space.start({ callReplica });
  await space.capsule(home);
  await space.becomes(CAPSULE, home, 'Ready', READY);
});
afterEach(async () => {
  await space.close();
  for (const replica of replicas) await replica.stop();
});

const named = (name: string) => ({
  name,
  labels: { [LABEL.space]: space.names.space, [LABEL.component]: 'egress' },
});
const make = (
  resource: Parameters<typeof pathOf>[0],
  body: unknown,
  namespace = space.names.servicesNamespace,
) => environment.server.client.call({ method: 'POST', path: pathOf(resource, namespace), body });

async function startReplica(): Promise<Service> {
  const config = readConfig({
    SPACE_NAME: space.names.space,
    LISTEN_HOST: '127.0.0.1',
    DATA_PORT: '0',
    CONTROL_PORT: '0',
    METRICS_PORT: '0',
    PROVISIONER_TOKEN_FILE: join(directory, 'token'),
    CUSTODY_KEY_FILE: join(directory, 'ring'),
    FIXED_HOSTS: 'api.bank.org=127.0.0.1:1',
  });
  return startService(config, createLogger({ service: 'egress', level: 'silent' }));
}

/** One more replica: a process of the gateway, and the pod by which the operator finds it. */
async function addReplica(ready = true): Promise<string> {
  const at = replicas.push(await startReplica());
  const name = `egress-${at}`;
  await make(POD, { metadata: named(name), spec: { containers: [{ name: 'egress', image: 'x' }] } });
  await started(name, 'containerd://1', `127.0.0.${10 + at}`, ready);
  return name;
}

async function started(name: string, containerID: string, podIP: string, ready = true): Promise<void> {
  const container = {
    name: 'egress',
    image: '',
    imageID: '',
    ready,
    started: true,
    restartCount: 0,
    containerID,
    state: { running: {} },
  };
  await environment.server.client.call({
    method: 'PATCH',
    path: pathOf(POD, space.names.servicesNamespace, name, 'status'),
    contentType: 'application/merge-patch+json',
    body: {
      status: {
        phase: 'Running',
        podIP,
        podIPs: [{ ip: podIP }],
        conditions: [{ type: 'Ready', status: ready ? 'True' : 'False' }],
        containerStatuses: [container],
      },
    },
  });
}

/** The gateway's keys from now on; the first one seals. */
function keep(primary: string, ...others: readonly string[]): void {
  const keys = [primary, ...others].map((id) => [id, createHash('sha256').update(id).digest('base64url')]);
  const ring = { primary, keys: Object.fromEntries(keys) };
  writeFileSync(join(directory, 'ring'), JSON.stringify(ring), { mode: 0o600 });
}

/** How the gateway answers the Assistant's own principal for a CONNECT. */
const connectTo = async (host: string, at = 0, from = '127.0.0.1'): Promise<string> =>
  codeFor(await ownPrincipal(), host, at, from);

async function ownPrincipal(): Promise<string> {
  const secret = await space.get<kinds.SecretObject>(SECRET, 'ledger-egress', space.namespaceOf(home));
  return Buffer.from(secret?.data?.['EGRESS_TOKEN'] ?? '', 'base64').toString();
}

/** How it answers the Assistant for a stored input. */
const useOf = async (key: string): Promise<string> =>
  answerTo(
    `GET /i/${key}/v1/rates HTTP/1.1\r\nhost: assistant-egress\r\nauthorization: Bearer ${await ownPrincipal()}\r\nconnection: close\r\n\r\n`,
  );

/** How it answers an unknown caller. */
const strangerIs = (code: string, at = 0) =>
  eventually(async () => (await codeFor(newToken('egr').reveal(), 'a.org', at)) === code, {
    what: `a stranger is ${code}`,
  });

const codeFor = (principal: string, host: string, at: number, from?: string): Promise<string> =>
  answerTo(
    `CONNECT ${host}:443 HTTP/1.1\r\nhost: ${host}\r\nproxy-authorization: Bearer ${principal}\r\n\r\n`,
    at,
    from,
  );

async function answerTo(head: string, at = 0, from = '127.0.0.1'): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = '';
    const port = replicas[at]?.dataPort ?? 1;
    const socket = connect({ port, host: '127.0.0.1', localAddress: from });
    socket.write(head);
    socket.setEncoding('latin1').on('data', (chunk) => {
      text += chunk;
    });
    socket
      .on('error', reject)
      .on('close', () => resolve(/platform-egress-error: (\w+)/.exec(text)?.[1] ?? text));
  });
}
const settles = (host: string, code: string, at = 0, from = '127.0.0.1') =>
  eventually(async () => (await connectTo(host, at, from)) === code, {
    what: `CONNECT ${host} from ${from} is ${code}`,
  });

/** The Assistant's pod has another address, as one that replaces it has. */
async function replacedAt(ip: string): Promise<void> {
  const namespace = space.namespaceOf(home);
  const [pod] = await space.list<kinds.Pod>(POD, namespace);
  await environment.server.client.call({
    method: 'PATCH',
    path: pathOf(POD, namespace, pod?.metadata.name ?? '', 'status'),
    contentType: 'application/merge-patch+json',
    body: { status: { podIP: ip, podIPs: [{ ip }] } },
  });
}

const outside = (network: object, inputs: object = {}) =>
  manifest('ledger', { network, stored_inputs: inputs });
const enter = (
  value: string,
  labels: Record<string, string> = { [LABEL.capsule]: home },
  type = STORED_INPUT_TYPE,
) =>
  make(
    SECRET,
    { metadata: { name: 'bank-key', labels }, type, stringData: { value } },
    space.names.namespace,
  );
const bound = { bank: { secretKeyRef: { name: 'bank-key', key: 'value' } } };

const say = (type: string, status: string) => space.becomes(ASSISTANT, 'ledger', type, status);
/** A call that was too late for the operator is repeated. */
const seals = () => answered.filter((operation) => operation === 'input.seal').length;
const digestOf = (input: unknown) =>
  definitionDigest(definitionOf(input as Parameters<typeof definitionOf>[0]));
const forThis = (input: object, nonce: string) => ({
  annotations: { [ANNOTATION.enteredFor]: `${digestOf(input)} ${nonce}` },
});

/** An Assistant that asks for an input, and somebody has entered it. */
async function asking(input: object, metadata: object = {}): Promise<void> {
  await addReplica();
  await enter(VALUE);
  await write({ metadata });
  const asked = outside({ allowed_hosts: [] }, { bank: input });
  await space.assistant('ledger', { capsule: home, manifest: asked, storedInputs: bound });
  await say('Ready', READY);
}

/** Another manifest asks for it like this. */
const asks = (bank: object) =>
  space.patch(ASSISTANT, 'ledger', { spec: { manifest: { stored_inputs: { bank } } } });

/** A person or a tool writes a Secret, without any event to the operator. */
const write = (body: object, namespace = space.names.namespace, name = 'bank-key') =>
  environment.server.client.call({
    method: 'PATCH',
    path: pathOf(SECRET, namespace, name),
    contentType: 'application/merge-patch+json',
    body,
  });

/** The operator has looked at everything that was written until now. */
async function looked(): Promise<void> {
  await asks({ label: `Label ${Math.random()}` });
  const isSeen = async () => {
    const found = await space.get<kinds.Assistant>(ASSISTANT, 'ledger');
    return found?.status?.observedGeneration === found?.metadata.generation;
  };
  await eventually(isSeen, { what: 'the operator has looked' });
}

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
      const before = calls.length;
      await new Promise((resolve) => setTimeout(resolve, 300));
      return calls.length === before;
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
  await replicas[1]?.stop();
  replicas[1] = await startReplica();
  await started(second, 'containerd://2', '127.0.0.12');
  await settles('api.bank.org', 'upstream_failed', 1);

  await space.removed(ASSISTANT, 'ledger');
  expect(await space.list(SECRET, space.namespaceOf(home))).toEqual([]);
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
    await space.assistant('ledger', { capsule: home, manifest: asked, storedInputs: bound });
    await say('Ready', READY);
    await settles('api.bank.org', 'upstream_failed');
    await refuse();
    const storedInputs = reason === 'StoredInputUnknown' ? bound : null;
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
  await replicas[0]?.stop();
  replicas[0] = await startReplica();
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
  ['StoredInputUnknown', () => space.patch(ASSISTANT, 'ledger', { spec: { storedInputs: bound } })],
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
  await replicas[0]?.stop();
  replicas[0] = await startReplica();
  await started(name, `containerd://${randomUUID()}`, '127.0.0.11', false);
  await strangerIs('forbidden');
}

/** A running Assistant, with two hosts and a stored input; returns the name of its manifest's ConfigMap. */
async function runs(): Promise<string> {
  await enter(VALUE);
  const hosts = { allowed_hosts: ['api.bank.org', 'rates.ecb.org'] };
  const asked = outside(hosts, { bank: INPUT });
  await space.assistant('ledger', { capsule: home, manifest: asked, storedInputs: bound });
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
    () => space.patch(ASSISTANT, 'ledger', { spec: { storedInputs: { ...bound, other: bound.bank } } }),
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
  reflected = ['bank'];
  await touch();
  const told = async () => (await space.events('ledger')).some(({ reason }) => reason === 'InputReflected');
  await eventually(told, { what: 'the Event' });
  reflected = [];
  await restarts(name);
  await settles('api.bank.org', 'upstream_failed');
  expect(await useOf('bank')).toBe('not_found');
});

test('a stored input is sealed once, outlives its Secret, and is sent nowhere else', async () => {
  await addReplica();
  const say = (status: string) => space.becomes(ASSISTANT, 'ledger', 'InputsBound', status);
  await space.assistant('ledger', {
    capsule: home,
    manifest: outside({ allowed_hosts: [] }, { bank: INPUT }),
    storedInputs: bound,
  });
  await say('False InputSecretNotFound');

  // Any Secret of the Space could be named; only one that was made for this is used.
  await enter(VALUE, { [LABEL.capsule]: 'another' });
  await touch();
  await say('False InputSecretRefused');
  await space.delete(SECRET, 'bank-key', space.names.namespace);
  await enter(VALUE, { [LABEL.capsule]: home }, 'Opaque');
  await touch();
  await say('False InputSecretRefused');
  await space.delete(SECRET, 'bank-key', space.names.namespace);
  await enter(VALUE);
  await touch();
  await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
  expect(seals()).toBe(1);

  // Nothing of it is where the Assistant, or anybody who reads its namespace, could look.
  const namespace = space.namespaceOf(home);
  const visible = await Promise.all(
    [SECRET, POD, DEPLOYMENT, kinds.CONFIG_MAP].map((kind) => space.list(kind, namespace)),
  );
  for (const form of [VALUE, Buffer.from(VALUE).toString('base64')])
    expect(JSON.stringify([visible, space.logs])).not.toContain(form);
  const [pod] = await space.list<kinds.Pod>(POD, namespace);
  expect(pod?.spec?.containers?.[0]?.env).toContainEqual({
    name: 'INPUT_BANK_URL',
    value: 'http://assistant-egress/i/bank',
  });

  await space.delete(SECRET, 'bank-key', space.names.namespace);
  await touch();
  await space.patch(ASSISTANT, 'ledger', {
    spec: { manifest: { stored_inputs: { bank: { label: 'Another label' } } } },
  });
  await touch();
  await say(READY);

  await space.patch(ASSISTANT, 'ledger', {
    spec: { manifest: { stored_inputs: { bank: { host: 'api.evil.org' } } } },
  });
  await say('False InputNeedsReentry');
  await space.patch(ASSISTANT, 'ledger', {
    spec: { manifest: { stored_inputs: { bank: { host: 'api.bank.org' } } } },
  });
  await say(READY);
  await space.patch(ASSISTANT, 'ledger', {
    spec: { manifest: { stored_inputs: { bank: { host: 'api.other.org' } } } },
  });
  await say('False InputNeedsReentry');
  await enter(`${VALUE}2`);
  await touch();
  await say(READY);
  await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
  expect(seals()).toBe(2);

  await space.removed(ASSISTANT, 'ledger');
  const left = await space.list<kinds.SecretObject>(SECRET);
  expect(left.map(({ metadata }) => metadata.name).filter((name) => name.startsWith('egress-'))).toEqual([]);
});

test('a value that its host returns is no longer used until a person enters a new one', async () => {
  const replica = await addReplica();
  await enter(VALUE);
  await space.assistant('ledger', {
    capsule: home,
    manifest: outside({ allowed_hosts: [] }, { bank: INPUT }),
    storedInputs: bound,
  });
  await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
  reflected = ['bank'];
  await touch();
  // EgressReady says so first, and InputsBound from the next look on: Ready says it all the time.
  await space.becomes(ASSISTANT, 'ledger', 'Ready', 'False InputReflected');
  await eventually(
    async () => (await space.events('ledger')).some(({ reason }) => reason === 'InputReflected'),
    {
      what: 'the Event',
    },
  );
  // A replica that has forgotten it does not get the value again.
  reflected = [];
  await replicas[0]?.stop();
  replicas[0] = await startReplica();
  await started(replica, 'containerd://2', '127.0.0.11');
  await touch();
  await space.becomes(ASSISTANT, 'ledger', 'InputsBound', 'False InputReflected');
  await space.becomes(ASSISTANT, 'ledger', 'Ready', 'False InputReflected');

  await space.delete(SECRET, 'bank-key', space.names.namespace);
  await touch();
  await space.becomes(ASSISTANT, 'ledger', 'InputsBound', 'False InputReflected');
  await enter(`${VALUE}2`);
  await touch();
  await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
  expect(seals()).toBe(2);
});

test('a value that is exchanged for one with a newline is reported, and the next one is used', async () => {
  await asking(INPUT);
  await write({ stringData: { value: `${VALUE}2\n` } });
  await touch();
  await say('InputsBound', 'False InputInvalid');
  expect(seals()).toBe(1);
  await write({ stringData: { value: `${VALUE}2` } });
  await touch();
  await say('Ready', READY);
  expect(seals()).toBe(2);
});

test('a write to a Secret that enters no value sends the sealed value to no other host', async () => {
  await asking(INPUT);
  await asks({ host: 'api.other.org' });
  await say('InputsBound', 'False InputNeedsReentry');
  const held = async () => {
    await looked();
    await say('InputsBound', 'False InputNeedsReentry');
    expect(seals()).toBe(1);
  };
  await write({ metadata: { annotations: { 'backup.example.org/seen': 'yes' }, labels: { team: 'books' } } });
  await held();
  // A tool that creates it again unchanged does not either.
  await space.delete(SECRET, 'bank-key', space.names.namespace);
  await enter(VALUE);
  await held();
  await write({ stringData: { value: `${VALUE}2` } });
  await touch();
  await say('Ready', READY);
  expect(seals()).toBe(2);
});

test('a write to a Secret that enters no value does not enable a value that its host returned', async () => {
  await asking(INPUT);
  reflected = ['bank'];
  await touch();
  await say('InputsBound', 'False InputReflected');
  reflected = [];
  await write({ metadata: { labels: { team: 'books' } } });
  await looked();
  await say('InputsBound', 'False InputReflected');
  expect(seals()).toBe(1);
  await write({ stringData: { value: `${VALUE}2` } });
  await touch();
  await say('Ready', READY);
  expect(seals()).toBe(2);
});

/** There is no sealed value any more. */
const forgotten = () =>
  eventually(
    async () => !(await space.get<kinds.SecretObject>(SECRET, `egress-${home}.ledger`))?.data?.['bank'],
    { what: 'the value is forgotten' },
  );

test('a manifest that leaves an input out and has it again for another host enters nothing', async () => {
  await asking(INPUT);
  await space.patch(ASSISTANT, 'ledger', {
    spec: { manifest: { stored_inputs: { bank: null } }, storedInputs: null },
  });
  await forgotten();
  await say('Ready', READY);
  const again = { stored_inputs: { bank: { ...INPUT, host: 'api.other.org' } } };
  await space.patch(ASSISTANT, 'ledger', { spec: { manifest: again, storedInputs: bound } });
  await say('InputsBound', 'False InputNeedsReentry');
  expect(seals()).toBe(1);
  await asks({ host: INPUT.host });
  await say('Ready', READY);
  expect(seals()).toBe(2);
});

test.each([
  ['without any host', []],
  ['with a host', ['api.bank.org']],
])(
  'the value of the last input that a manifest gives up is forgotten, and entered anew for a later one: %s',
  async (_, hosts) => {
    await asking(INPUT);
    const less = { network: { allowed_hosts: hosts }, stored_inputs: { bank: null } };
    await space.patch(ASSISTANT, 'ledger', { spec: { manifest: less, storedInputs: null } });
    await forgotten();
    await say('Ready', READY);
    await space.delete(SECRET, 'bank-key', space.names.namespace);
    const more = { stored_inputs: { bank: INPUT } };
    await space.patch(ASSISTANT, 'ledger', { spec: { manifest: more, storedInputs: bound } });
    await say('InputsBound', 'False InputSecretNotFound');
  },
);

test('an entry with its definition is accepted with the same value, and used for nothing else', async () => {
  const [other, third] = [{ host: 'api.other.org' }, { host: 'api.third.org' }];
  await asking(INPUT, forThis(INPUT, 'first'));
  await asks(other);
  await say('InputsBound', 'False InputNeedsReentry');
  const { status } = (await space.get<kinds.Assistant>(ASSISTANT, 'ledger')) ?? {};
  expect(status?.conditions?.find(({ type }) => type === 'InputsBound')?.message).toContain(
    `${ANNOTATION.enteredFor}=${digestOf({ ...INPUT, ...other })} for bank`,
  );
  // As the console does where somebody saw the manifest of before.
  await write({ metadata: forThis(INPUT, 'late'), stringData: { value: `${VALUE}2` } });
  await looked();
  await say('InputsBound', 'False InputNeedsReentry');
  expect(seals()).toBe(1);

  await write({ metadata: forThis({ ...INPUT, ...other }, 'second') });
  await touch();
  await say('Ready', READY);
  expect(seals()).toBe(2);

  reflected = ['bank'];
  await touch();
  await say('InputsBound', 'False InputReflected');
  reflected = [];
  await write({ metadata: { labels: { team: 'books' } } });
  await looked();
  await say('InputsBound', 'False InputReflected');
  await write({ metadata: forThis({ ...INPUT, ...other }, 'third') });
  await touch();
  await say('Ready', READY);
  expect(seals()).toBe(3);

  // An entry for a later definition is used once the manifest has that definition.
  await write({ metadata: forThis({ ...INPUT, ...third }, 'fourth') });
  await looked();
  await say('Ready', READY);
  expect(seals()).toBe(3);
  await asks(third);
  await eventually(() => seals() === 4, { what: 'the value to be sealed for the third host' });
  await say('Ready', READY);
});

test('a value that an earlier operator sealed stays bound, and stays disabled until a person enters one', async () => {
  await asking(INPUT);
  const name = `egress-${home}.ledger`;
  const sealed = async () => (await space.get<kinds.SecretObject>(SECRET, name))?.data ?? {};
  const { 'bank.fingerprint': fingerprint, ...before } = await sealed();
  expect(fingerprint).toBeDefined();
  const forget = () => write({ data: { 'bank.fingerprint': null } }, space.names.systemNamespace, name);
  await forget();
  await touch();
  await eventually(async () => (await sealed())['bank.fingerprint'] !== undefined, { what: 'another' });
  expect(await sealed()).toMatchObject(before);
  await say('Ready', READY);

  await asks({ host: 'api.other.org' });
  await say('InputsBound', 'False InputNeedsReentry');
  await forget();
  await write({ metadata: { labels: { team: 'books' } } });
  await looked();
  await say('InputsBound', 'False InputNeedsReentry');
  expect(seals()).toBe(1);
  await space.delete(SECRET, 'bank-key', space.names.namespace);
  await enter(`${VALUE}2`);
  await touch();
  await say('Ready', READY);
  expect(seals()).toBe(2);
});

test('a value that is easy to guess is refused, and the condition says why', async () => {
  await addReplica();
  await enter('Aa1!xyz');
  await space.assistant('ledger', {
    capsule: home,
    manifest: outside({ allowed_hosts: [] }, { bank: INPUT }),
    storedInputs: bound,
  });
  await space.becomes(ASSISTANT, 'ledger', 'InputsBound', 'False InputInvalid');
  const { status } = (await space.get<kinds.Assistant>(ASSISTANT, 'ledger')) ?? {};
  const message = status?.conditions?.find(({ type }) => type === 'InputsBound')?.message;
  expect(message).toContain('"bank" is too easy to guess');
  expect(message).not.toContain('Aa1');
  expect(calls).not.toContain('input.seal');
});

test('a value is sealed again with the next key, and the old key can be removed', async () => {
  const replica = await addReplica();
  await enter(VALUE);
  await space.assistant('ledger', {
    capsule: home,
    manifest: outside({ allowed_hosts: [] }, { bank: INPUT }),
    storedInputs: bound,
  });
  await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
  await space.delete(SECRET, 'bank-key', space.names.namespace);
  const name = `egress-${home}.ledger`;
  const sealed = async () => (await space.get<kinds.SecretObject>(SECRET, name))?.data?.['bank'];
  const before = await sealed();
  const puts = () => calls.filter((operation) => operation === 'policy.put').length;
  /** Returns the number of policies that were put before the operator could know of it. */
  const restart = async (start: number) => {
    await replicas[0]?.stop();
    replicas[0] = await startReplica();
    const before = puts();
    await started(replica, `containerd://${start}`, '127.0.0.11');
    return before;
  };

  keep('k2', 'k1');
  await restart(2);
  await eventually(async () => (await sealed()) !== before, { what: 'sealed anew' });

  keep('k2');
  const putBefore = await restart(3);
  await eventually(() => puts() > putBefore, { what: 'the policy to be put again' });
  await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
  expect(seals()).toBe(1);
});

/** Secrets are not watched: a person's next look at the Assistant is what an annotation is here. */
const touch = () =>
  space.patch(ASSISTANT, 'ledger', { metadata: { annotations: { looked: String(Math.random()) } } });

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
  const [replica] = replicas;
  // Cut off from the operator, not from its callers.
  cut = true;
  await space.patch(ASSISTANT, 'ledger', { spec: { manifest: { network: { allowed_hosts: [] } } } });
  await space.becomes(ASSISTANT, 'ledger', 'EgressReady', 'True NotNeeded');
  expect(await connectTo('api.bank.org')).toBe('upstream_failed');
  cut = false;
  await settles('api.bank.org', 'host_denied');
  expect(replicas[0]).toBe(replica);
});

test('a replica is up to date before it is ready if there is no Assistant', async () => {
  await addReplica(false);
  await strangerIs('forbidden');
  // A call that was too late is repeated.
  expect([...new Set(calls)]).toEqual(['replica.state', 'replica.in_step']);
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
  await replicas[0]?.stop();
  replicas[0] = await startReplica();
  calls.length = 0;
  await started(name, 'containerd://2', '127.0.0.11', false);
  await strangerIs('forbidden');
  const first = calls.slice(0, calls.indexOf('replica.in_step'));
  expect(first).toContain('policy.put');
  expect(await connectTo('api.bank.org')).toBe('upstream_failed');
});

test('a replica that starts while there is no operator asks its callers to wait for one', async () => {
  await space.assistant('ledger', { capsule: home, manifest: outside({ allowed_hosts: ['api.bank.org'] }) });
  const name = await addReplica();
  await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
  await space.stop();
  await replicas[0]?.stop();
  replicas[0] = await startReplica();
  await started(name, 'containerd://2', '127.0.0.11', false);
  await strangerIs('unavailable');
  expect(await connectTo('api.bank.org')).toBe('unavailable');
  calls.length = 0;
  await space.start({ callReplica });
  await strangerIs('forbidden');
  expect(calls.indexOf('policy.put')).toBeLessThan(calls.indexOf('replica.in_step'));
  expect(await connectTo('api.bank.org')).toBe('upstream_failed');
});
