import { definitionDigest, definitionOf } from '@space/manifests';
import { beforeEach, expect, test } from 'vitest';
import { eventually } from '../../testing/eventually.ts';
import * as kinds from '../kinds.ts';
import { ANNOTATION, LABEL } from '../names.ts';
import { BOUND, INPUT, outside, READY, useGateways, VALUE } from '../testing/gateway-fixture.ts';
import type { TestSpace } from '../testing/space.ts';

const { ASSISTANT, DEPLOYMENT, POD, SECRET } = kinds;
const gateways = useGateways();
const { addReplica, asks, enter, keep, say, startReplica, started, touch, write } = gateways;
let space: TestSpace;
let home: string;
beforeEach(() => {
  ({ space, home } = gateways);
});

/** A call that was too late for the operator is repeated. */
const seals = () => gateways.answered.filter((operation) => operation === 'input.seal').length;
const digestOf = (input: unknown) =>
  definitionDigest(definitionOf(input as Parameters<typeof definitionOf>[0]));
const forThis = (input: object, nonce: string) => ({
  annotations: { [ANNOTATION.enteredFor]: `${digestOf(input)} ${nonce}` },
});

/** An Assistant that asks for an input. */
const deploy = (input: object) =>
  space.assistant('ledger', {
    capsule: home,
    manifest: outside({ allowed_hosts: [] }, { bank: input }),
    storedInputs: BOUND,
  });

/** The same, once somebody has entered a value; answers the name of its gateway's one replica. */
async function asking(input: object, metadata: object = {}): Promise<string> {
  const replica = await addReplica();
  await enter(VALUE);
  await write({ metadata });
  await deploy(input);
  await say('Ready', READY);
  return replica;
}

/** The operator has looked at everything that was written until now. */
async function looked(): Promise<void> {
  await asks({ label: `Label ${Math.random()}` });
  const isSeen = async () => {
    const found = await space.get<kinds.Assistant>(ASSISTANT, 'ledger');
    return found?.status?.observedGeneration === found?.metadata.generation;
  };
  await eventually(isSeen, { what: 'the operator has looked' });
}

test('a stored input is sealed once, outlives its Secret, and is sent nowhere else', async () => {
  await addReplica();
  const say = (status: string) => space.becomes(ASSISTANT, 'ledger', 'InputsBound', status);
  await deploy(INPUT);
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
  const replica = await asking(INPUT);
  gateways.reflected = ['bank'];
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
  gateways.reflected = [];
  await gateways.replicas[0]?.stop();
  gateways.replicas[0] = await startReplica();
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
  gateways.reflected = ['bank'];
  await touch();
  await say('InputsBound', 'False InputReflected');
  gateways.reflected = [];
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
  await space.patch(ASSISTANT, 'ledger', { spec: { manifest: again, storedInputs: BOUND } });
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
    await space.patch(ASSISTANT, 'ledger', { spec: { manifest: more, storedInputs: BOUND } });
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

  gateways.reflected = ['bank'];
  await touch();
  await say('InputsBound', 'False InputReflected');
  gateways.reflected = [];
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
  await deploy(INPUT);
  await space.becomes(ASSISTANT, 'ledger', 'InputsBound', 'False InputInvalid');
  const { status } = (await space.get<kinds.Assistant>(ASSISTANT, 'ledger')) ?? {};
  const message = status?.conditions?.find(({ type }) => type === 'InputsBound')?.message;
  expect(message).toContain('"bank" is too easy to guess');
  expect(message).not.toContain('Aa1');
  expect(gateways.calls).not.toContain('input.seal');
});

test('a value whose key is lost is entered again as its condition says, also the same one', async () => {
  const replica = await asking(INPUT);
  keep('k2');
  await gateways.replicas[0]?.stop();
  gateways.replicas[0] = await startReplica();
  await started(replica, 'containerd://2', '127.0.0.11');
  await say('EgressReady', 'False InputNeedsReentry');
  // A write of what is there changes nothing, and nobody could tell it from no write.
  await write({ stringData: { value: VALUE } });
  await looked();
  await say('EgressReady', 'False InputNeedsReentry');
  const [, mark = '', digest = ''] =
    /annotated with (\S+)=(\S+) for bank/.exec(await space.message(ASSISTANT, 'ledger', 'EgressReady')) ?? [];
  await write({ metadata: { annotations: { [mark]: digest } } });
  await touch();
  await say('Ready', READY);
  expect(seals()).toBe(2);
});

test('a value that its host returned while it is sealed again with the next key stays disabled', async () => {
  const replica = await asking(INPUT);
  keep('k2', 'k1');
  gateways.returnsResealed = true;
  await gateways.replicas[0]?.stop();
  gateways.replicas[0] = await startReplica();
  await started(replica, 'containerd://2', '127.0.0.11');
  await say('InputsBound', 'False InputReflected');
});

test('a sealed value goes with its Assistant, although its Secret does not say whose it is any more', async () => {
  await asking(INPUT);
  // Nobody can seal it again.
  await space.delete(SECRET, 'bank-key', space.names.namespace);
  const name = `egress-${home}.ledger`;
  await write({ metadata: { annotations: { [ANNOTATION.owner]: null } } }, space.names.systemNamespace, name);
  await touch();
  await say('InputsBound', 'False InputSecretNotFound');
  await space.delete(ASSISTANT, 'ledger');
  await eventually(async () => !(await space.get(ASSISTANT, 'ledger')), { what: 'it is gone' });
  expect(await space.get(SECRET, name)).toBeUndefined();
});

test('a value is sealed again with the next key, and the old key can be removed', async () => {
  const replica = await asking(INPUT);
  await space.delete(SECRET, 'bank-key', space.names.namespace);
  const name = `egress-${home}.ledger`;
  const sealed = async () => (await space.get<kinds.SecretObject>(SECRET, name))?.data?.['bank'];
  const before = await sealed();
  const puts = () => gateways.calls.filter((operation) => operation === 'policy.put').length;
  /** Returns the number of policies that were put before the operator could know of it. */
  const restart = async (start: number) => {
    await gateways.replicas[0]?.stop();
    gateways.replicas[0] = await startReplica();
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
