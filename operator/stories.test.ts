import { NEVER } from '@space/manifests';
import { describe, expect, test } from 'vitest';
import { connect } from '../brokers/db/testing/postgres.ts';
import { eventually } from '../testing/eventually.ts';
import * as kinds from './kinds.ts';
import { ANNOTATION, ASSISTANT_FINALIZER, LABEL, principalSecretName } from './names.ts';
import { pathOf } from './runtime/kube-object.ts';
import { eachFixture } from './testing/fixture.ts';
import { manifest } from './testing/manifest.ts';
import { IMAGE, type TestSpace } from './testing/space.ts';
import { tableOf } from './testing/table.ts';
import type { TestEnvironment } from './testing/test-environment.ts';

const { ASSISTANT, CAPSULE, CONFIG_MAP, DEPLOYMENT, NAMESPACE, POD, SECRET } = kinds;
const READY = 'True Ready';
let environment: TestEnvironment;
let space: TestSpace;
let home: string;
let before: string[];

eachFixture(async (fixture) => {
  ({ environment, space, home, before } = fixture);
  await space.start();
});

describe('the lifecycle', () => {
  test('a Capsule and its Assistant become ready, and leave nothing behind', async () => {
    const namespace = await space.settled();
    expect(await space.urlOf('ledger')).toMatch(/^postgresql:/);
    await space.removed(ASSISTANT, 'ledger');
    expect(await space.list(SECRET, namespace)).toEqual([]);
    expect(await space.list(POD, namespace)).toEqual([]);
    await space.removed(CAPSULE, home);
    expect(await space.get(NAMESPACE, namespace)).toBeUndefined();
    expect(await space.list(SECRET)).toEqual([]);
    expect(await environment.databases()).toEqual(before);
  });

  test('deleting a Capsule deletes its Assistants first, and accepts no new ones', async () => {
    const namespace = await space.settled();
    const held = 'space.test/held';
    await space.patch(ASSISTANT, 'ledger', { metadata: { finalizers: [ASSISTANT_FINALIZER, held] } });
    await space.delete(CAPSULE, home);
    const finalizers = async () =>
      (await space.get<kinds.Assistant>(ASSISTANT, 'ledger'))?.metadata.finalizers ?? [];
    await eventually(async () => (await finalizers()).join() === held, { what: 'the end of its data' });
    const left = await environment.databases();
    // While one is there, the Capsule stays, and ends others that come.
    await space.assistant('later', { capsule: home, manifest: manifest('later') });
    await space.goes(ASSISTANT, 'later');
    expect(await space.condition(CAPSULE, home, 'Finalized')).toBe('False AssistantsRemain');
    expect(await space.list(DEPLOYMENT, namespace)).toEqual([]);
    expect(await environment.databases()).toEqual(left);
    await space.patch(ASSISTANT, 'ledger', { metadata: { finalizers: [] } });
    await space.goes(CAPSULE, home);
    expect(await environment.databases()).toEqual(before);
    await space.assistant('late', { capsule: home });
    await space.becomes(ASSISTANT, 'late', 'Ready', 'False CapsuleNotFound');
    await space.removed(ASSISTANT, 'late');
  });

  test('Retain keeps databases and principal, and a Capsule of that name takes them over', async () => {
    const namespace = await space.settled();
    const url = await space.urlOf('ledger');
    await space.patch(CAPSULE, home, { spec: { deletionPolicy: 'Retain' } });
    await space.removed(CAPSULE, home);
    expect(await space.get(NAMESPACE, namespace)).toBeUndefined();
    const kept = await space.get<kinds.SecretObject>(SECRET, principalSecretName(home));
    expect(kept?.metadata.labels?.[LABEL.retained]).toBe('true');
    expect(await environment.databases()).not.toEqual(before);

    await space.settled();
    expect(await space.urlOf('ledger')).toBe(url);
    const taken = await space.get<kinds.SecretObject>(SECRET, principalSecretName(home));
    expect(taken?.data?.['principal']).toBe(kept?.data?.['principal']);
    expect(taken?.metadata.labels?.[LABEL.retained]).toBeUndefined();
    await space.removed(CAPSULE, home);
    expect(await environment.databases()).toEqual(before);
  });

  test('an Assistant that is created suspended is accepted and isolated, and gets no database', async () => {
    await space.capsule(home, { suspend: true });
    await space.assistant('ledger', { capsule: home, suspend: true });
    await space.becomes(ASSISTANT, 'ledger', 'WorkloadReady', 'False Suspended');
    await space.becomes(ASSISTANT, 'ledger', 'Accepted', READY);
    await space.becomes(CAPSULE, home, 'NetworkReady', READY);
    expect(await environment.databases()).toEqual(before);
    await space.patch(CAPSULE, home, { spec: { suspend: false } });
    await space.patch(ASSISTANT, 'ledger', { spec: { suspend: false } });
    await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
    const namespace = space.namespaceOf(home);
    const url = await space.urlOf('ledger');

    await space.patch(CAPSULE, home, { spec: { suspend: true } });
    await space.becomes(ASSISTANT, 'ledger', 'Ready', 'False Suspended');
    await eventually(async () => (await space.list(POD, namespace)).length === 0, { what: 'no pod is left' });
    await space.patch(CAPSULE, home, { spec: { suspend: false } });
    await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
    expect(await space.urlOf('ledger')).toBe(url);
    await space.removed(CAPSULE, home);
  });

  test('an Assistant that is resumed while it is refused waits, and starts later without being called restored', async () => {
    await space.capsule(home);
    await space.assistant('ledger', { capsule: home });
    await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
    await space.patch(ASSISTANT, 'ledger', { spec: { suspend: true } });
    await space.becomes(ASSISTANT, 'ledger', 'WorkloadReady', 'False Suspended');
    const none = async () => (await space.list(POD, space.namespaceOf(home))).length === 0;
    await eventually(none, { what: 'no pod is left' });
    await space.patch(CAPSULE, home, { spec: { quota: { assistants: 0 } } });
    await space.patch(ASSISTANT, 'ledger', { spec: { suspend: false } });
    await space.becomes(ASSISTANT, 'ledger', 'WorkloadReady', 'Unknown Waiting');
    await space.becomes(ASSISTANT, 'ledger', 'Accepted', 'False QuotaExceeded');
    await space.patch(CAPSULE, home, { spec: { quota: null } });
    await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
    const reasons = (await space.events('ledger')).map(({ reason }) => reason);
    expect(reasons).not.toContain('WorkloadRestored');
    await space.removed(CAPSULE, home);
  });

  test('a Capsule that is restored from a backup has its databases and files, and no pod until the annotation is removed', async () => {
    await space.capsule(home);
    await space.patch(CAPSULE, home, {
      metadata: { annotations: { [ANNOTATION.restoring]: '2026-11-21T10:30:00Z' } },
    });
    await space.assistant('ledger', { capsule: home });
    await space.becomes(ASSISTANT, 'ledger', 'DatabaseReady', READY);
    await space.becomes(ASSISTANT, 'ledger', 'Ready', 'False Restoring');
    const namespace = space.namespaceOf(home);
    const url = await space.urlOf('ledger');
    expect(await space.list(DEPLOYMENT, namespace)).toEqual([]);

    const gone = { metadata: { annotations: { [ANNOTATION.restoring]: null } } };
    await space.patch(CAPSULE, home, gone);
    await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
    expect(await space.urlOf('ledger')).toBe(url);
    await space.patch(CAPSULE, home, {
      metadata: { annotations: { [ANNOTATION.restoring]: '2026-11-21T10:30:00Z' } },
    });
    await space.becomes(ASSISTANT, 'ledger', 'Ready', 'False Restoring');
    await eventually(async () => (await space.list(POD, namespace)).length === 0, { what: 'no pod is left' });
    await space.patch(CAPSULE, home, gone);
    await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
    await space.removed(CAPSULE, home);
  });

  test('a new version rolls out the pods and removes the old documents', async () => {
    const namespace = await space.settled();
    const [old] = await space.list(POD, namespace);
    const next = manifest('ledger');
    await space.patch(ASSISTANT, 'ledger', {
      spec: {
        manifest: { ...next, platform: { ...next.platform, version: '1.1.0', genesis: 'Be better.' } },
      },
    });
    await eventually(
      async () => {
        const pods = await space.list(POD, namespace);
        return pods.length === 1 && pods[0]?.metadata.name !== old?.metadata.name;
      },
      { what: 'the pod is another' },
    );
    await eventually(async () => (await space.list(CONFIG_MAP, namespace)).length === 2, {
      what: 'two documents are left',
    });
    const status = (await space.get<kinds.Assistant>(ASSISTANT, 'ledger'))?.status;
    expect(status?.manifest?.version).toBe('1.1.0');
    await space.removed(CAPSULE, home);
  });

  test('a version with more powers lists them in an Event', async () => {
    await space.capsule(home, { integrations: { mail: { scopes: ['read', 'send'] } } });
    const version = (number: string, scopes: string[]) => {
      const asks = manifest('ledger', { integrations: { mail: { scopes } } });
      return { ...asks, platform: { ...asks.platform, version: number } };
    };
    await space.assistant('ledger', { capsule: home, manifest: version('1.0.0', ['read']) });
    await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
    await space.patch(ASSISTANT, 'ledger', { spec: { manifest: version('1.1.0', ['read', 'send']) } });
    const note = 'Version 1.1.0 may do what 1.0.0 could not: it may use send of the integration mail.';
    const told = async () =>
      (await space.events('ledger')).filter(({ reason }) => reason === 'PowersWidened');
    await eventually(async () => (await told()).length > 0, { what: 'the Event' });
    await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
    await space.patch(ASSISTANT, 'ledger', { spec: { manifest: version('1.2.0', ['send']) } });
    const upgraded = async () => {
      const found = await space.get<kinds.Assistant>(ASSISTANT, 'ledger');
      return found?.status?.manifest?.version === '1.2.0';
    };
    await eventually(upgraded, { what: 'the narrower version is taken' });
    await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
    expect((await told()).map(({ note: says }) => says)).toEqual([note]);
    await space.removed(CAPSULE, home);
  });
});

describe('two Assistants with one id', () => {
  test('belongs to the older one; the deletion of the younger one leaves its database unchanged', async () => {
    const namespace = await space.settled();
    const url = await space.urlOf('ledger');
    const session = await connect(url);
    await session.query('CREATE TABLE books AS SELECT 42 AS entry');
    await session.end();
    const databases = await environment.databases();
    await space.assistant('copy', { capsule: home, manifest: manifest('ledger') });
    await space.becomes(ASSISTANT, 'copy', 'Ready', 'False DuplicateIdentifier');
    expect(await space.message(ASSISTANT, 'copy', 'Accepted')).toContain('belongs to Assistant "ledger"');
    // One that was refused gets no finalizer; with it, as one that was accepted once has it, its end asks what is its own.
    await space.patch(ASSISTANT, 'copy', { metadata: { finalizers: [ASSISTANT_FINALIZER] } });
    await space.removed(ASSISTANT, 'copy');
    expect(await environment.databases()).toEqual(databases);
    const again = await connect(await space.urlOf('ledger'));
    const { rows } = await again.query('SELECT entry FROM books');
    await again.end();
    expect(rows).toEqual([{ entry: 42 }]);
    expect(await space.urlOf('ledger')).toBe(url);
    await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
    expect((await space.list(POD, namespace)).length).toBe(1);
    await space.removed(CAPSULE, home);
  });

  test('the deletion of the older one gives the id to the younger one, with its own database', async () => {
    await space.settled();
    const url = await space.urlOf('ledger');
    await space.assistant('copy', { capsule: home, manifest: manifest('ledger') });
    await space.becomes(ASSISTANT, 'copy', 'Ready', 'False DuplicateIdentifier');
    await space.removed(ASSISTANT, 'ledger');
    await space.becomes(ASSISTANT, 'copy', 'Ready', READY);
    expect(await space.urlOf('ledger')).not.toBe(url);
    await space.removed(CAPSULE, home);
    expect(await environment.databases()).toEqual(before);
  });
});

describe('a refusal', () => {
  test('of a name that is not an id', async () => {
    await space.capsule('postgres');
    await space.becomes(CAPSULE, 'postgres', 'Ready', 'False InvalidName');
    await space.capsule('a.b');
    await space.becomes(CAPSULE, 'a.b', 'NamespaceReady', 'False InvalidName');
    expect(await space.condition(CAPSULE, 'postgres', 'Stalled')).toBe('True InvalidName');
    await space.removed(CAPSULE, 'postgres');
    await space.removed(CAPSULE, 'a.b');
  });

  test('of a namespace that belongs to somebody else, which is never taken over', async () => {
    const name = space.namespaceOf(home);
    const { client } = environment.server;
    await client.call({ method: 'POST', path: '/api/v1/namespaces', body: { metadata: { name } } });
    await space.capsule(home);
    await space.becomes(CAPSULE, home, 'Ready', 'False NamespaceConflict');
    const found = await space.get<kinds.Namespace>(NAMESPACE, name);
    expect(found?.metadata.annotations?.[ANNOTATION.owner]).toBeUndefined();
    await space.removed(CAPSULE, home);
    expect((await space.get<kinds.Namespace>(NAMESPACE, name))?.metadata.deletionTimestamp).toBeUndefined();
  });

  test('of an Assistant that needs something missing, which its condition names', async () => {
    await space.capsule(home, { quota: { assistants: 6 }, integrations: { mail: { scopes: ['read'] } } });
    await space.assistant('hosts', {
      capsule: home,
      manifest: manifest('hosts', { network: { allowed_hosts: ['api.bank.org'] } }),
    });
    await space.becomes(ASSISTANT, 'hosts', 'EgressReady', 'False GatewayUnavailable');
    await space.becomes(ASSISTANT, 'hosts', 'Ready', 'False GatewayUnavailable');
    await space.assistant('scopes', {
      capsule: home,
      manifest: manifest('scopes', { integrations: { mail: { scopes: ['read', 'send'] } } }),
    });
    await space.becomes(ASSISTANT, 'scopes', 'Ready', 'False ScopesNotGranted');
    expect(await space.message(ASSISTANT, 'scopes', 'IntegrationsGranted')).toContain('mail (send)');
    await space.patch(CAPSULE, home, { spec: { integrations: { mail: { scopes: ['read', 'send'] } } } });
    await space.becomes(ASSISTANT, 'scopes', 'Ready', READY);
    await space.assistant('lost', { capsule: 'nowhere' });
    await space.becomes(ASSISTANT, 'lost', 'Ready', 'False CapsuleNotFound');
    await space.removed(ASSISTANT, 'lost');
    const pods = await space.list(POD, space.namespaceOf(home));
    expect(pods.length).toBe(1);
    await space.removed(CAPSULE, home);
    expect(await environment.databases()).toEqual(before);
  });

  test('of more Assistants than the Capsule may have: the younger ones wait', async () => {
    await space.capsule(home, { quota: { assistants: 1 } });
    await space.assistant('first', { capsule: home });
    await space.becomes(ASSISTANT, 'first', 'Ready', READY);
    await space.assistant('second', { capsule: home });
    await space.becomes(ASSISTANT, 'second', 'Ready', 'False QuotaExceeded');
    await space.removed(ASSISTANT, 'first');
    await space.becomes(ASSISTANT, 'second', 'Ready', READY);
    await space.removed(CAPSULE, home);
  });

  test('of an image that cannot be pulled, and one that crashes; the next image repairs it', async () => {
    space.fates.set('registry.test/nothing:1', 'pull-fails');
    space.fates.set('registry.test/broken:1', 'crashes');
    await space.capsule(home);
    await space.assistant('ledger', { capsule: home, image: 'registry.test/nothing:1' });
    await space.becomes(ASSISTANT, 'ledger', 'Ready', 'False ImagePullFailed');
    expect(await space.message(ASSISTANT, 'ledger', 'WorkloadReady')).toContain('"registry.test/nothing:1"');
    await space.patch(ASSISTANT, 'ledger', { spec: { image: 'registry.test/broken:1' } });
    await space.becomes(ASSISTANT, 'ledger', 'Ready', 'False CrashLooping');
    await space.patch(ASSISTANT, 'ledger', { spec: { image: IMAGE } });
    await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
    // Each has one Event, although Ready has the reason, too.
    const reasons = async () => (await space.events('ledger')).map(({ reason }) => reason);
    await eventually(async () => (await reasons()).includes('AssistantReady'), { what: 'the last Event' });
    for (const one of ['ImagePullFailed', 'CrashLooping'])
      expect((await reasons()).filter((reason) => reason === one)).toEqual([one]);
    await space.removed(CAPSULE, home);
  });
});

test('a fault that only another spec can repair is Stalled, for tools that wait, until it is repaired', async () => {
  await space.capsule(home);
  const storedInputs = { strange: { secretKeyRef: { name: 's', key: 'k' } } };
  await space.assistant('ledger', { capsule: home, storedInputs });
  await space.becomes(ASSISTANT, 'ledger', 'Stalled', 'True StoredInputUnknown');
  await space.patch(ASSISTANT, 'ledger', { spec: { storedInputs: null } });
  await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
  expect(await space.condition(ASSISTANT, 'ledger', 'Stalled')).toBe('none');
  // A fault that others can repair is waited for.
  await space.patch(CAPSULE, home, { spec: { suspend: true } });
  await space.becomes(ASSISTANT, 'ledger', 'Ready', 'False Suspended');
  expect(await space.condition(ASSISTANT, 'ledger', 'Stalled')).toBe('none');
  await space.removed(CAPSULE, home);
});

describe('a stored input', () => {
  const asks = manifest('bank', {
    stored_inputs: {
      key: {
        kind: 'password',
        label: 'Key',
        description: 'The key of the bank.',
        help_url: 'https://bank.org/keys',
        host: 'api.bank.org',
        routes: [{ method: 'GET', path: '/accounts' }],
        header: 'Authorization',
      },
    },
  });
  const secret = (name: string, labels: object, type = 'platform.space/stored-input') =>
    environment.server.client.call({
      method: 'POST',
      path: `/api/v1/namespaces/${space.names.namespace}/secrets`,
      body: { metadata: { name, labels }, type, stringData: { value: 'correct-horse' } },
    });
  const bind = (name: string) => ({ storedInputs: { key: { secretKeyRef: { name, key: 'value' } } } });

  test('is bound to a Secret that was created for it in this Capsule, and to no other', async () => {
    await space.capsule(home);
    await space.assistant('bank', { capsule: home, manifest: asks });
    await space.becomes(ASSISTANT, 'bank', 'InputsBound', 'False InputsMissing');
    await secret('opaque', { [LABEL.capsule]: home }, 'Opaque');
    await secret('strange', { [LABEL.capsule]: 'cabin' });
    // Its own Capsule's principal would be the worst of all, and is not where stored inputs are.
    for (const [name, reason] of [
      [principalSecretName(home), 'InputSecretNotFound'],
      ['opaque', 'InputSecretRefused'],
      ['strange', 'InputSecretRefused'],
    ] as const) {
      await space.patch(ASSISTANT, 'bank', { spec: bind(name) });
      await eventually(
        async () => (await space.message(ASSISTANT, 'bank', 'InputsBound')).includes(`"${name}"`),
        { what: `${name} is looked at` },
      );
      expect(await space.condition(ASSISTANT, 'bank', 'InputsBound')).toBe(`False ${reason}`);
    }
    await space.patch(ASSISTANT, 'bank', { spec: bind('bank') });
    await space.becomes(ASSISTANT, 'bank', 'InputsBound', 'False InputSecretNotFound');
    await secret('bank', { [LABEL.capsule]: home });
    // Secrets are not watched; a change of the Assistant triggers a reconcile at once.
    await space.patch(ASSISTANT, 'bank', { spec: { replicas: 2 } });
    await space.becomes(ASSISTANT, 'bank', 'InputsBound', READY);
    expect(JSON.stringify([space.logs, await space.list(ASSISTANT)])).not.toContain('horse');
    await space.removed(CAPSULE, home);
  });
});

test('an object that no operator has reconciled says so, without an observedGeneration, so that no tool takes it for current', async () => {
  await space.stop();
  await space.capsule(home);
  await space.assistant('ledger', { capsule: home });
  const { kubeconfig } = environment.server;
  for (const [resource, name] of [
    [CAPSULE, home],
    [ASSISTANT, 'ledger'],
  ] as const) {
    const { status } = (await space.get<kinds.Capsule>(resource, name)) ?? {};
    expect(status?.observedGeneration).toBe(-1);
    expect(status?.conditions).toMatchObject([{ type: 'Ready', status: 'Unknown', reason: 'Waiting' }]);
    const [row] = await tableOf(kubeconfig, pathOf(resource, space.names.namespace), true);
    expect(row).toMatchObject({ Ready: 'Unknown', Reason: 'Waiting' });
    // As where no release is in its namespace.
    expect(row?.['Why']).toMatch(/^No operator has looked at it yet\..*namespace of a Space’s release/);
  }
  await space.start();
  await space.becomes(ASSISTANT, 'ledger', 'Ready', 'True Ready');
  const { metadata, status } = (await space.get<kinds.Assistant>(ASSISTANT, 'ledger')) ?? {};
  expect(status?.observedGeneration).toBe(metadata?.generation);
  expect(status?.conditions?.map(({ lastTransitionTime }) => lastTransitionTime)).not.toContain(NEVER);
  await space.removed(CAPSULE, home);
});
