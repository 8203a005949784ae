/** A foreign admission policy refuses the operator's writes: the condition names it, and everything continues without it. */
import { afterEach, describe, expect, test } from 'vitest';
import { eventually } from '../testing/eventually.ts';
import * as kinds from './kinds.ts';
import { principalSecretName } from './names.ts';
import { asRefused, quoted } from './refusals.ts';
import { Writer } from './runtime/apply.ts';
import { eachFixture } from './testing/fixture.ts';
import { manifest } from './testing/manifest.ts';
import { type Denied, deny, denyByAbsence } from './testing/policies.ts';
import type { TestSpace } from './testing/space.ts';
import type { TestEnvironment } from './testing/test-environment.ts';

const { ASSISTANT, CAPSULE } = kinds;
const READY = 'True Ready';
const MESSAGE = `"label team is missing: ask " + "the platform team"`;
const CREATE = ['CREATE'];
let environment: TestEnvironment;
let space: TestSpace;
let home: string;
const lifts: (() => Promise<void>)[] = [];

eachFixture(async (fixture) => {
  ({ environment, space, home } = fixture);
  await space.start();
});
afterEach(async () => {
  for (const lift of lifts.splice(0)) await lift();
});

async function policy(denied: Denied): Promise<() => Promise<void>> {
  const lift = await deny(environment.server.client, space.names.namespace, denied);
  lifts.push(lift);
  return lift;
}
const inCapsule = () => `request.namespace == "${space.namespaceOf(home)}"`;

describe('a write for a Capsule that somebody’s policy refuses', () => {
  test.each<[string, string, string, () => string]>([
    ['namespaces', '', 'NamespaceReady', () => `object.metadata.name == "${space.namespaceOf(home)}"`],
    ['resourcequotas', '', 'NamespaceReady', inCapsule],
    ['rolebindings', 'rbac.authorization.k8s.io', 'NamespaceReady', inCapsule],
    ['networkpolicies', 'networking.k8s.io', 'NetworkReady', inCapsule],
    ['secrets', '', 'DatabaseReady', () => `object.metadata.name == "${principalSecretName(home)}"`],
  ])('of %s is reported and retried', async (resource, group, condition, where) => {
    const lift = await policy({ group, resource, operations: CREATE, where: where(), message: MESSAGE });
    await space.capsule(home);
    await space.becomes(CAPSULE, home, condition, 'False WriteRefused');
    const message = await space.message(CAPSULE, home, condition);
    if (resource === 'secrets') expect(message).toContain("ValidatingAdmissionPolicy 'denied-");
    else expect(message).toContain('label team is missing: ask the platform team');
    const told = async () => (await space.events(home)).map(({ reason }) => reason);
    await eventually(async () => (await told()).includes('WriteRefused'), { what: 'the Event' });
    await lift();
    await space.becomes(CAPSULE, home, 'Ready', READY);
  });

  test('of its deletion is reported, which completes when the policy is removed', async () => {
    await space.settled();
    const where = `oldObject.metadata.name == "${space.namespaceOf(home)}"`;
    const lift = await policy({
      group: '',
      resource: 'namespaces',
      operations: ['DELETE'],
      where,
      message: MESSAGE,
    });
    await space.delete(CAPSULE, home);
    await space.becomes(CAPSULE, home, 'Finalized', 'False WriteRefused');
    await lift();
    await space.goes(CAPSULE, home);
  });
});

describe('a write for an Assistant that somebody’s policy refuses', () => {
  test.each<[string, string, string, 'Forbidden' | 'Invalid', string]>([
    ['deployments', 'apps', 'WorkloadReady', 'Forbidden', 'true'],
    ['deployments', 'apps', 'WorkloadReady', 'Invalid', 'true'],
    ['services', '', 'WorkloadReady', 'Invalid', 'true'],
    ['configmaps', '', 'WorkloadReady', 'Invalid', 'object.metadata.name.startsWith("ledger-manifest")'],
    ['secrets', '', 'DatabaseReady', 'Invalid', 'object.metadata.name == "ledger-database"'],
  ])(
    'of %s (%s) under %s as %s is reported and retried',
    async (resource, group, condition, reason, which) => {
      await space.capsule(home);
      await space.becomes(CAPSULE, home, 'Ready', READY);
      const where = `${inCapsule()} && ${which}`;
      const lift = await policy({ group, resource, operations: CREATE, where, message: MESSAGE, reason });
      await space.assistant('ledger', { capsule: home });
      await space.becomes(ASSISTANT, 'ledger', condition, 'False WriteRefused');
      const told = async () => (await space.events('ledger')).map((event) => event.reason);
      await eventually(async () => (await told()).includes('WriteRefused'), { what: 'the Event' });
      await lift();
      await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
    },
  );

  test('of its deletion is reported, which completes when the policy is removed', async () => {
    const namespace = await space.settled();
    const where = `request.namespace == "${namespace}"`;
    const lift = await policy({
      group: 'apps',
      resource: 'deployments',
      operations: ['DELETE'],
      where,
      message: MESSAGE,
    });
    await space.delete(ASSISTANT, 'ledger');
    await space.becomes(ASSISTANT, 'ledger', 'Finalized', 'False WriteRefused');
    await lift();
    await space.goes(ASSISTANT, 'ledger');
  });
});

describe('a write that needs a webhook which is unavailable', () => {
  const away = async (denied: Omit<Denied, 'message' | 'reason'>) => {
    const lift = await denyByAbsence(environment.server.client, space.names.namespace, denied);
    lifts.push(lift);
    return lift;
  };

  test.each([
    ['namespaces', '', 'NamespaceReady', () => `object.metadata.name == "${space.namespaceOf(home)}"`],
    ['resourcequotas', '', 'NamespaceReady', inCapsule],
    ['secrets', '', 'DatabaseReady', () => `object.metadata.name == "${principalSecretName(home)}"`],
  ] as const)(
    'of %s for a Capsule is told, and done once it is back',
    async (resource, group, condition, where) => {
      const lift = await away({ group, resource, operations: CREATE, where: where() });
      await space.capsule(home);
      await space.becomes(CAPSULE, home, condition, 'False WriteRefused');
      expect(await space.message(CAPSULE, home, condition)).toContain('webhook \\"absent.space.test\\"');
      await lift();
      await space.becomes(CAPSULE, home, 'Ready', READY);
    },
  );

  test('for an Assistant is reported, and completed once the webhook is back', async () => {
    await space.settled();
    const lift = await away({
      group: 'apps',
      resource: 'deployments',
      operations: ['*'],
      where: inCapsule(),
    });
    await space.patch(ASSISTANT, 'ledger', { spec: { replicas: 2 } });
    await space.becomes(ASSISTANT, 'ledger', 'WorkloadReady', 'False WriteRefused');
    await lift();
    await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
    const { spec } =
      (await space.get<kinds.Deployment>(kinds.DEPLOYMENT, 'ledger', space.namespaceOf(home))) ?? {};
    expect(spec?.replicas).toBe(2);
  });

  test('for the deletion of an Assistant is reported, and completed once the webhook is back', async () => {
    await space.settled();
    const lift = await away({ group: 'apps', resource: 'deployments', operations: ['DELETE'] });
    await space.delete(ASSISTANT, 'ledger');
    await space.becomes(ASSISTANT, 'ledger', 'Finalized', 'False WriteRefused');
    await lift();
    await space.goes(ASSISTANT, 'ledger');
  });
});

test('a refused write of the URL, or of a claim that was lost, leaves no database of an Assistant that is deleted then', async () => {
  await space.capsule(home);
  await space.becomes(CAPSULE, home, 'Ready', READY);
  const empty = await environment.databases();
  const where = `${inCapsule()} && object.metadata.name == "ledger-database"`;
  const secrets = { group: '', resource: 'secrets', where, message: MESSAGE };
  await policy({ ...secrets, operations: ['UPDATE'] });
  await space.assistant('ledger', { capsule: home });
  await space.becomes(ASSISTANT, 'ledger', 'WorkloadReady', 'False WriteRefused');
  expect(await space.condition(ASSISTANT, 'ledger', 'DatabaseReady')).toBe('Unknown Starting');
  expect(await environment.databases()).not.toEqual(empty);
  await policy({ ...secrets, operations: CREATE });
  const namespace = space.namespaceOf(home);
  await space.delete(kinds.NAMESPACE, namespace);
  const lost = async () => (await space.get(kinds.SECRET, 'ledger-database', namespace)) === undefined;
  await eventually(lost, { what: 'the claim is lost' });
  await space.removed(ASSISTANT, 'ledger');
  expect(await environment.databases()).toEqual(empty);
});

test('a right that a role of the operator lacks is reported with verb and kind', async () => {
  const { server } = environment;
  const path = `/api/v1/namespaces/${space.names.namespace}/serviceaccounts`;
  await server.client.call({ method: 'POST', path, body: { metadata: { name: 'no-rights' } } });
  const { status } = await server.client.call<{ status: { token: string } }>({
    method: 'POST',
    path: `${path}/no-rights/token`,
    body: { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: {} },
  });
  const writer = new Writer({
    client: server.clientOf(status.token),
    fieldManager: 'test',
    digestAnnotation: 'platform.space/digest',
  });
  const wish = { metadata: { name: 'some', namespace: space.names.namespace }, data: {} };
  const failure: unknown = await writer.create(kinds.CONFIG_MAP, wish).catch((error: unknown) => error);
  const { finding } = asRefused(failure);
  expect(finding).toMatchObject({ status: 'False', reason: 'WriteRefused' });
  expect(finding.message).toMatch(
    /cannot create resource \\"configmaps\\".* the missing right that causes this/,
  );
});

test('a policy’s message about a Secret is repeated nowhere', async () => {
  await space.capsule(home);
  await space.becomes(CAPSULE, home, 'Ready', READY);
  const where = `${inCapsule()} && has(object.data) && "DATABASE_URL" in object.data`;
  const message = 'string(object.data.DATABASE_URL)';
  await policy({ group: '', resource: 'secrets', operations: ['CREATE', 'UPDATE'], where, message });
  await space.assistant('second', { capsule: home, manifest: manifest('second') });
  await space.becomes(ASSISTANT, 'second', 'WorkloadReady', 'False WriteRefused');
  const events = await space.events('second');
  const everything = JSON.stringify([space.logs, await space.list(ASSISTANT), events]);
  expect(everything).not.toContain('postgresql://');
  expect(everything).not.toContain(Buffer.from('postgresql://').toString('base64').slice(0, 12));
});

test('the message of somebody else becomes one short line', () => {
  expect(quoted('a\n\u001b[2Jb\u202e  c "d"')).toBe('"a [2Jb c \\"d\\""');
  expect(quoted('x'.repeat(100_000)).length).toBe(402);
});
