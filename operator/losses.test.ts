/** What an administrator deletes by hand, or a restored cluster loses: it is reported and waited for, and no data is lost. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { BrokerError } from '@space/contracts/client';
import { afterAll, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { eventually } from '../testing/eventually.ts';
import { openSmallDisk } from '../testing/small-disk.ts';
import * as kinds from './kinds.ts';
import { ANNOTATION, LABEL, principalSecretName } from './names.ts';
import { ApiError, isNotFound } from './runtime/errors.ts';
import { pathOf } from './runtime/kube-object.ts';
import { DEFINITIONS, underAnySchema } from './testing/definitions.ts';
import { eachFixture } from './testing/fixture.ts';
import { manifest } from './testing/manifest.ts';
import { agreeingObjects } from './testing/objects.ts';
import type { TestSpace } from './testing/space.ts';
import { tableOf } from './testing/table.ts';
import type { TestEnvironment } from './testing/test-environment.ts';

const { ASSISTANT, CAPSULE, DEPLOYMENT, NAMESPACE, POD, SECRET } = kinds;
const READY = 'True Ready';
const AWAY = 'http://127.0.0.1:9';
const ROOT = join(import.meta.dirname, '..');
const disk = openSmallDisk();
let environment: TestEnvironment;
let space: TestSpace;
let home: string;
let before: string[];

// Hooks that end are run backwards: the disk goes after the server on it.
afterAll(() => disk?.close());
eachFixture(
  async (fixture) => {
    ({ environment, space, home, before } = fixture);
    await space.start();
  },
  { settings: { synchronous_commit: 'on' }, ...(disk ? { place: disk.path } : {}) },
);

const again = async (options?: Parameters<TestSpace['start']>[0]) => {
  await space.stop();
  await space.start(options);
};

describe('a namespace', () => {
  /** As an administrator who is in a hurry: its contents are not waited for. */
  async function force(name: string): Promise<void> {
    await space.delete(NAMESPACE, name);
    const left = await space.get(NAMESPACE, name);
    if (left?.metadata.deletionTimestamp === undefined) return;
    const path = pathOf(NAMESPACE, undefined, name, 'finalize');
    const body = { ...left, spec: { finalizers: [] } };
    await environment.server.client.call({ method: 'PUT', path, body }).catch((error: unknown) => {
      // It is already deleted with everything in it.
      if (!(error instanceof ApiError && [404, 409].includes(error.status))) throw error;
    });
  }

  test('that is force-deleted while the broker is down and an Assistant is in deletion blocks neither the deletion nor leaves a database', async () => {
    const namespace = await space.settled();
    await again({ brokerUrl: AWAY });
    await space.delete(ASSISTANT, 'ledger');
    await space.becomes(ASSISTANT, 'ledger', 'Finalized', 'False BrokerUnreachable');
    const { uid } = (await space.get(NAMESPACE, namespace))?.metadata ?? {};
    await force(namespace);
    // The Capsule stays, and so it gets another.
    const another = async () => {
      const found = await space.get(NAMESPACE, namespace);
      return found !== undefined && found.metadata.uid !== uid;
    };
    await eventually(another, { what: 'the Capsule has another namespace' });
    expect(await environment.databases()).not.toEqual(before);
    await again();
    await space.goes(ASSISTANT, 'ledger');
    await space.becomes(CAPSULE, home, 'Ready', READY);
    expect(await space.list(SECRET, namespace)).toEqual([]);
    expect(await space.list(POD, namespace)).toEqual([]);
    await space.removed(CAPSULE, home);
    expect(await environment.databases()).toEqual(before);
  });

  test('that is force-deleted while its Capsule is in deletion and the broker is down blocks nothing later', async () => {
    const namespace = await space.settled();
    await again({ brokerUrl: AWAY });
    await space.delete(CAPSULE, home);
    await space.becomes(ASSISTANT, 'ledger', 'Finalized', 'False BrokerUnreachable');
    await force(namespace);
    await space.goes(NAMESPACE, namespace);
    await space.becomes(CAPSULE, home, 'Finalized', 'False AssistantsRemain');
    await again();
    await space.goes(CAPSULE, home);
    expect(await space.list(ASSISTANT)).toEqual([]);
    expect(await space.list(SECRET)).toEqual([]);
    expect(await environment.databases()).toEqual(before);
  });

  /** The Capsule alone, ready; answers the databases and roles that there are then. */
  async function ready(): Promise<string[]> {
    await space.capsule(home);
    await space.becomes(CAPSULE, home, 'Ready', READY);
    return environment.databases();
  }

  test('that is deleted while nothing may run takes no database from the deletion of an Assistant', async () => {
    const empty = await ready();
    await space.assistant('ledger', { capsule: home });
    await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
    await space.delete(kinds.RUNTIME_CLASS, space.names.runtimeClass);
    await space.becomes(ASSISTANT, 'ledger', 'SandboxReady', 'False RuntimeClassNotFound');
    const namespace = space.namespaceOf(home);
    await space.delete(NAMESPACE, namespace);
    const lost = async () => (await space.get(SECRET, 'ledger-database', namespace)) === undefined;
    await eventually(lost, { what: 'the claim is lost' });
    await space.patch(ASSISTANT, 'ledger', { spec: { replicas: 2 } });
    const seen = async () => {
      const { metadata, status } = (await space.get<kinds.Assistant>(ASSISTANT, 'ledger')) ?? {};
      return metadata !== undefined && metadata.generation === status?.observedGeneration;
    };
    await eventually(seen, { what: 'the operator has seen the Assistant without its claim' });
    expect(await space.condition(ASSISTANT, 'ledger', 'DatabaseReady')).toBe(READY);
    await space.removed(ASSISTANT, 'ledger');
    expect(await environment.databases()).toEqual(empty);
    await space.removed(CAPSULE, home);
  });

  test('that is deleted between the creation of a database and the write of its URL leaves no database of an Assistant that is deleted then', async () => {
    const { client } = environment.server;
    let empty: string[] = [];
    const injected = Promise.withResolvers<void>();
    const inject = async (namespace: string) => {
      expect(await environment.databases()).not.toEqual(empty);
      await space.delete(NAMESPACE, namespace);
      const lost = async () => (await space.get(SECRET, 'ledger-database', namespace)) === undefined;
      await eventually(lost, { what: 'the claim is lost' });
      await space.delete(ASSISTANT, 'ledger');
    };
    let begun = false;
    await again({
      client: {
        lines: (request) => client.lines(request),
        async call(request) {
          if (!begun && request.method === 'PATCH' && request.path.endsWith('/secrets/ledger-database')) {
            begun = true;
            await inject(space.namespaceOf(home)).then(injected.resolve, injected.reject);
          }
          return client.call(request);
        },
      },
    });
    empty = await ready();
    await space.assistant('ledger', { capsule: home });
    await injected.promise;
    await space.goes(ASSISTANT, 'ledger');
    expect(await environment.databases()).toEqual(empty);
    await space.removed(CAPSULE, home);
  });

  test('that is deleted leaves the data of an Assistant that is deleted then to none that waits for its id', async () => {
    const namespace = await space.settled();
    const url = await space.urlOf('ledger');
    await space.assistant('copy', { capsule: home, manifest: manifest('ledger') });
    await space.becomes(ASSISTANT, 'copy', 'Accepted', 'False DuplicateIdentifier');
    await space.stop();
    await force(namespace);
    await space.goes(NAMESPACE, namespace);
    await space.delete(ASSISTANT, 'ledger');
    await space.start();
    await space.becomes(ASSISTANT, 'copy', 'Ready', READY);
    expect(await space.urlOf('ledger')).not.toBe(url);
    await space.removed(CAPSULE, home);
    expect(await environment.databases()).toEqual(before);
  });

  test('with copies of all our labels and annotations is neither taken over nor deleted', async () => {
    const namespace = await space.settled();
    const ours = await space.get<kinds.Namespace>(NAMESPACE, namespace);
    const name = `${namespace}-copy`;
    const { labels, annotations } = ours?.metadata ?? {};
    expect(labels?.[LABEL.capsule]).toBe(home);
    expect(annotations?.[ANNOTATION.owner]).toBeDefined();
    const body = { metadata: { name, labels, annotations } };
    const { client } = environment.server;
    await client.call({ method: 'POST', path: pathOf(NAMESPACE), body });
    const made = await space.get(NAMESPACE, name);
    await again();
    await space.assistant('second', { capsule: home, manifest: manifest('second') });
    await space.becomes(ASSISTANT, 'second', 'Ready', READY);
    await space.removed(CAPSULE, home);
    const left = await space.get(NAMESPACE, name);
    expect(left?.metadata.resourceVersion).toBe(made?.metadata.resourceVersion);
    for (const kind of [kinds.NETWORK_POLICY, kinds.RESOURCE_QUOTA, kinds.ROLE_BINDING, SECRET])
      expect(await space.list(kind, name)).toEqual([]);
    await space.delete(NAMESPACE, name);
  });
});

describe('a pod', () => {
  test('that lost its labels delays the drop of its database until it is gone', async () => {
    const namespace = await space.settled();
    const kept = await environment.databases();
    const [pod] = await space.list(POD, namespace);
    const name = pod?.metadata.name ?? '';
    await space.patch(POD, name, { metadata: { labels: null, annotations: null } }, namespace);
    await space.delete(ASSISTANT, 'ledger');
    await space.becomes(ASSISTANT, 'ledger', 'Finalized', 'False PodsRemain');
    expect(await environment.databases()).toEqual(kept);
    expect(await space.get(DEPLOYMENT, 'ledger', namespace)).toBeUndefined();
    const path = pathOf(POD, namespace, name);
    await environment.server.client.call({ method: 'DELETE', path, body: { gracePeriodSeconds: 0 } });
    await space.goes(ASSISTANT, 'ledger');
    await space.removed(CAPSULE, home);
    expect(await environment.databases()).toEqual(before);
  });
});

describe('a claim whose owner reference was removed', () => {
  const claimOf = (namespace: string) => space.get<kinds.SecretObject>(SECRET, 'ledger-database', namespace);
  const disown = (namespace: string) =>
    space.patch(
      SECRET,
      'ledger-database',
      { metadata: { annotations: { [ANNOTATION.owner]: null } } },
      namespace,
    );

  test('is returned to its Assistant, which keeps URL and pods', async () => {
    const namespace = await space.settled();
    const url = await space.urlOf('ledger');
    const podsOf = async () => (await space.list(POD, namespace)).map(({ metadata }) => metadata.uid);
    const pods = await podsOf();
    await disown(namespace);
    await again();
    const owned = async () =>
      (await claimOf(namespace))?.metadata.annotations?.[ANNOTATION.owner] !== undefined;
    await eventually(owned, { what: 'the claim has its owner' });
    expect(await space.urlOf('ledger')).toBe(url);
    expect(await podsOf()).toEqual(pods);
    await space.removed(CAPSULE, home);
  });

  test('is removed with its Assistant, and the next one with its id has an existing database', async () => {
    const namespace = await space.settled();
    await space.stop();
    await disown(namespace);
    await space.delete(ASSISTANT, 'ledger');
    await space.start();
    await space.goes(ASSISTANT, 'ledger');
    expect(await claimOf(namespace)).toBeUndefined();
    const without = await environment.databases();
    await space.assistant('ledger', { capsule: home });
    await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
    expect((await environment.databases()).length).toBe(without.length + 2);
    await space.removed(CAPSULE, home);
  });

  test('gives its URL to no other Assistant, since the URL may no longer be valid', async () => {
    const namespace = await space.settled();
    const claim = await claimOf(namespace);
    await space.removed(ASSISTANT, 'ledger');
    const { name, labels } = claim?.metadata ?? { name: '' };
    await environment.server.client.call({
      method: 'POST',
      path: pathOf(SECRET, namespace),
      body: { metadata: { name, labels }, data: claim?.data },
    });
    await space.assistant('ledger', { capsule: home });
    await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
    const { data } = (await claimOf(namespace)) ?? {};
    expect(data?.['DATABASE_URL']).not.toBe(claim?.data?.['DATABASE_URL']);
    expect(await space.condition(ASSISTANT, 'ledger', 'DatabaseReady')).toBe(READY);
    await space.removed(CAPSULE, home);
  });
});

describe('a kind', () => {
  test('whose CRD is deleted by hand removes its Capsules in order; Retain keeps data, and everything continues once it is back', async () => {
    const { client } = environment.server;
    const namespace = await space.settled();
    const url = await space.urlOf('ledger');
    await space.patch(CAPSULE, home, { spec: { deletionPolicy: 'Retain' } });
    const kept = await environment.databases();
    const path = `${DEFINITIONS}/capsules.platform.space`;
    await client.call({ method: 'DELETE', path, body: {} });
    const gone = () => client.call({ method: 'GET', path }).then(() => false, isNotFound);
    await eventually(gone, { what: 'the kind is gone' });
    expect(await space.get(NAMESPACE, namespace)).toBeUndefined();
    expect(await environment.databases()).toEqual(kept);
    const failures = () => space.logs.filter((line) => line.includes('watch failed'));
    await eventually(() => failures().length > 0, { what: 'the loss is noticed' });

    const body = parse(readFileSync(join(ROOT, 'crds/capsules.yaml'), 'utf8'));
    await client.call({ method: 'POST', path: DEFINITIONS, body });
    await eventually(() => space.list(CAPSULE), { what: 'the kind is served' });
    await space.settled();
    expect(await space.urlOf('ledger')).toBe(url);
    expect(failures().length).toBeLessThan(40);
    await space.removed(CAPSULE, home);
    expect(await environment.databases()).toEqual(before);
  });

  test('whose CRD returns to an older release: newer fields are reported and kept, and running pods continue', async () => {
    const namespace = await space.settled();
    const url = await space.urlOf('ledger');
    const [pod] = await space.list(POD, namespace);
    const kept = await environment.databases();
    await space.stop();
    const newer = manifest('ledger');
    const platform = { ...newer.platform, spec: 2, mood: 'new' };
    const { client } = environment.server;
    const tuning = { tuning: { level: 3 } };
    const spec = { manifest: { ...newer, platform }, ...tuning };
    await underAnySchema(client, 'assistants', () => space.patch(ASSISTANT, 'ledger', { spec }));
    await underAnySchema(client, 'assistants', () => space.assistant('tuned', { capsule: home, ...tuning }));
    await space.start();
    await space.becomes(ASSISTANT, 'ledger', 'Accepted', 'False ManifestInvalid');
    expect(await space.message(ASSISTANT, 'ledger', 'Accepted')).toContain('/platform/spec');
    await space.becomes(ASSISTANT, 'tuned', 'Accepted', 'False SpecInvalid');
    expect(await space.message(ASSISTANT, 'tuned', 'Accepted')).toContain('/tuning');
    // The status was written, and what the older release does not know is still there for the newer.
    const tuned = await space.get<kinds.Assistant>(ASSISTANT, 'tuned');
    expect(tuned?.spec).toMatchObject({ tuning: { level: 3 } });
    await space.becomes(ASSISTANT, 'ledger', 'WorkloadReady', READY);
    expect((await space.list(POD, namespace)).map(({ metadata }) => metadata.uid)).toContain(
      pod?.metadata.uid,
    );
    expect(await environment.databases()).toEqual(expect.arrayContaining(kept));
    await space.patch(ASSISTANT, 'ledger', { spec: { suspend: true } });
    await eventually(async () => (await space.list(POD, namespace)).length === 0, { what: 'no pod is left' });
    await space.patch(ASSISTANT, 'ledger', [
      { op: 'replace', path: '/spec/suspend', value: false },
      { op: 'replace', path: '/spec/manifest', value: manifest('ledger') },
      { op: 'remove', path: '/spec/tuning' },
    ]);
    await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
    expect(await space.urlOf('ledger')).toBe(url);
    expect((await space.get<kinds.Deployment>(DEPLOYMENT, 'ledger', namespace))?.spec?.replicas).toBe(1);
    await space.removed(CAPSULE, home);
    expect(await environment.databases()).toEqual(before);
  });

  /** Gives the Assistant another id, as a schema of somebody's own may let a person do. */
  async function changeId(): Promise<void> {
    const spec = { manifest: manifest('books') };
    await underAnySchema(environment.server.client, 'assistants', () =>
      space.patch(ASSISTANT, 'ledger', { spec }),
    );
    await space.becomes(ASSISTANT, 'ledger', 'Accepted', 'False SpecInvalid');
  }

  test('and that let the id of an Assistant be changed: suspending it still stops its pods', async () => {
    const namespace = await space.settled();
    await changeId();
    await space.becomes(ASSISTANT, 'ledger', 'WorkloadReady', READY);
    await underAnySchema(environment.server.client, 'assistants', () =>
      space.patch(ASSISTANT, 'ledger', { spec: { suspend: true } }),
    );
    await space.becomes(ASSISTANT, 'ledger', 'WorkloadReady', 'False Suspended');
    await eventually(async () => (await space.list(POD, namespace)).length === 0, { what: 'no pod is left' });
    await space.removed(CAPSULE, home);
    expect(await environment.databases()).toEqual(before);
  });

  test('and that let the id of an Assistant be changed: its condition says how it comes back with its data', async () => {
    await space.settled();
    const url = await space.urlOf('ledger');
    await changeId();
    // The schema of now refuses the change back, too.
    const back = space.patch(ASSISTANT, 'ledger', { spec: { manifest: manifest('ledger') } });
    await expect(back).rejects.toThrow('is immutable');
    expect(await space.message(ASSISTANT, 'ledger', 'Accepted')).toContain('spec.deletionPolicy "Retain"');
    await space.patch(ASSISTANT, 'ledger', { spec: { deletionPolicy: 'Retain' } });
    await space.removed(ASSISTANT, 'ledger');
    await space.assistant('ledger', { capsule: home });
    await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
    expect(await space.urlOf('ledger')).toBe(url);
    await space.removed(CAPSULE, home);
    expect(await environment.databases()).toEqual(before);
  });

  test('and that let the Capsule of an Assistant be changed: it stays in its own, and has nothing in the other', async () => {
    const namespace = await space.settled();
    const other = `${home}-other`;
    await space.capsule(other);
    await space.becomes(CAPSULE, other, 'Ready', READY);
    // What somebody keeps there under the same id.
    await space.assistant('kept', { capsule: other, manifest: manifest('ledger') });
    await space.becomes(ASSISTANT, 'kept', 'Ready', READY);
    await space.patch(ASSISTANT, 'kept', { spec: { deletionPolicy: 'Retain' } });
    await space.removed(ASSISTANT, 'kept');
    const had = await environment.databases();
    await underAnySchema(environment.server.client, 'assistants', () =>
      space.patch(ASSISTANT, 'ledger', { spec: { capsule: other } }),
    );
    await space.becomes(ASSISTANT, 'ledger', 'Accepted', 'False SpecInvalid');
    expect(await space.message(ASSISTANT, 'ledger', 'Accepted')).toContain(`spec.capsule was "${home}"`);
    await space.becomes(ASSISTANT, 'ledger', 'WorkloadReady', READY);
    expect((await space.list(POD, namespace)).length).toBe(1);
    expect(await space.list(DEPLOYMENT, space.namespaceOf(other))).toEqual([]);
    // Its end drops what is its own, and nothing of the other Capsule's.
    await space.removed(ASSISTANT, 'ledger');
    expect(await space.list(POD, namespace)).toEqual([]);
    expect((await environment.databases()).length).toBe(had.length - 2);
    await space.removed(CAPSULE, home);
    await space.assistant('ledger', { capsule: other });
    await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
    const isTaken = async () => (await space.events('ledger')).some(({ reason }) => reason === 'DataTakenUp');
    await eventually(isTaken, { what: 'what was kept there is taken up' });
    await space.removed(CAPSULE, other);
    expect(await environment.databases()).toEqual(before);
  });

  test('and that let the id of an Assistant be changed: it keeps its id, and does not have the other one', async () => {
    await space.settled();
    const url = await space.urlOf('ledger');
    await changeId();

    await space.assistant('copy', { capsule: home, manifest: manifest('ledger') });
    await space.becomes(ASSISTANT, 'copy', 'Accepted', 'False DuplicateIdentifier');
    expect(await space.message(ASSISTANT, 'copy', 'Accepted')).toContain('belongs to Assistant "ledger"');
    await space.assistant('books', { capsule: home });
    await space.becomes(ASSISTANT, 'books', 'Ready', READY);

    // Its end drops what is its own, and frees the id.
    await space.removed(ASSISTANT, 'ledger');
    await space.becomes(ASSISTANT, 'copy', 'Ready', READY);
    expect(await space.urlOf('ledger')).not.toBe(url);
    await space.becomes(ASSISTANT, 'books', 'Ready', READY);
    await space.removed(CAPSULE, home);
    expect(await environment.databases()).toEqual(before);
  });
});

describe('an etcd that is restored to an older state', () => {
  /** The older state: Ready, with its URL, and without a reported usage. */
  async function dropBehindItsBack(): Promise<void> {
    await space.stop();
    const principal = await space.get<kinds.SecretObject>(SECRET, principalSecretName(home));
    const token = Buffer.from(principal?.data?.['principal'] ?? '', 'base64').toString();
    const { status } = await environment.database.broker.as(token).drop(home, 'ledger');
    expect(status).toBe(200);
    const path = pathOf(ASSISTANT, space.names.namespace, 'ledger', 'status');
    const contentType = 'application/merge-patch+json';
    const body = { status: { usage: null } };
    await environment.server.client.call({ method: 'PATCH', path, contentType, body });
  }

  test('from before the deletion of an Assistant is reported, and its database is not replaced without a request', async () => {
    await space.settled();
    const url = await space.urlOf('ledger');
    await dropBehindItsBack();
    const without = await environment.databases();
    await space.start();
    await space.becomes(ASSISTANT, 'ledger', 'DatabaseReady', 'False DatabaseLost');
    expect(await space.condition(ASSISTANT, 'ledger', 'Ready')).toBe('False DatabaseLost');
    await again();
    await space.patch(ASSISTANT, 'ledger', { spec: { args: ['looked', 'at'] } });
    const seen = async () => {
      const object = await space.get<kinds.Assistant>(ASSISTANT, 'ledger');
      return object?.status?.observedGeneration === object?.metadata.generation;
    };
    await eventually(seen, { what: 'a look of another operator' });
    expect(await space.condition(ASSISTANT, 'ledger', 'DatabaseReady')).toBe('False DatabaseLost');
    expect([await environment.databases(), await space.urlOf('ledger')]).toEqual([without, url]);
  });

  test.each([
    ['gone, too', { status: 404, code: 'not_found' }, 'False FilesLost'],
    ['of a store that is away', {}, READY],
  ] as const)('is told where files are %s', async (_, answer, files) => {
    await again({ objectStore: agreeingObjects() });
    await space.settled();
    await dropBehindItsBack();
    const store = { name: 'object-storage broker', deployment: 'objectstore-broker' };
    const failure = 'code' in answer ? 'refused' : 'unreachable';
    const appUsage = () => Promise.reject(new BrokerError(store, failure, 'nothing of it', answer));
    await space.start({ objectStore: agreeingObjects({ appUsage }) });
    const told = () => space.condition(ASSISTANT, 'ledger', 'DatabaseReady');
    // A sweep, which would bring it about at last, is minutes later.
    await eventually(async () => (await told()) === 'False DatabaseLost', { what: 'it is told' });
    expect(await space.condition(ASSISTANT, 'ledger', 'ObjectStoreReady')).toBe(files);
    await space.removed(ASSISTANT, 'ledger');
    await space.removed(CAPSULE, home);
  });

  test('is resolved by a rotation, which begins with an empty database, or by a deletion, which completes', async () => {
    await space.settled();
    const url = await space.urlOf('ledger');
    await dropBehindItsBack();
    await space.start();
    await space.becomes(ASSISTANT, 'ledger', 'DatabaseReady', 'False DatabaseLost');
    await space.patch(ASSISTANT, 'ledger', { metadata: { annotations: { [ANNOTATION.rotate]: 'anew' } } });
    await space.becomes(ASSISTANT, 'ledger', 'DatabaseReady', READY);
    await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
    expect(await space.urlOf('ledger')).not.toBe(url);
    await dropBehindItsBack();
    await space.start();
    await space.becomes(ASSISTANT, 'ledger', 'DatabaseReady', 'False DatabaseLost');
    await space.removed(ASSISTANT, 'ledger');
    await space.removed(CAPSULE, home);
    expect(await environment.databases()).toEqual(before);
  });
});

describe('an etcd that is restored to a state from before the deletion of a Capsule', () => {
  const store = { name: 'object-storage broker', deployment: 'objectstore-broker' };
  const forbidden = () =>
    Promise.reject(new BrokerError(store, 'refused', 'no', { status: 403, code: 'forbidden' }));

  /** What the Capsule's deletion did in the database broker; the older state has Capsule and Assistant Ready. */
  async function dropBehindItsBack(finalized: boolean): Promise<void> {
    await space.stop();
    const { broker } = environment.database;
    const principal = await space.get<kinds.SecretObject>(SECRET, principalSecretName(home));
    const token = Buffer.from(principal?.data?.['principal'] ?? '', 'base64').toString();
    expect((await broker.as(token).dropAll(home)).status).toBe(200);
    if (finalized) expect((await broker.provisioner.finalize(home)).status).toBe(200);
    await forgetUsage();
  }

  async function forgetUsage(): Promise<void> {
    for (const [kind, name] of [[CAPSULE, home] as const, [ASSISTANT, 'ledger'] as const]) {
      const path = pathOf(kind, space.names.namespace, name, 'status');
      const contentType = 'application/merge-patch+json';
      const body = { status: { usage: null } };
      await environment.server.client.call({ method: 'PATCH', path, contentType, body });
    }
  }

  test.each([true, false])(
    '(finalized: %s) is reported by the Capsule, creates nothing, and is resolved by its deletion',
    async (finalized) => {
      await space.settled();
      await dropBehindItsBack(finalized);
      await space.start();
      await space.becomes(CAPSULE, home, 'DatabaseReady', 'False DatabaseLost');
      await space.becomes(ASSISTANT, 'ledger', 'CapsuleReady', 'False CapsuleNotReady');
      // An operator that starts still reports it.
      await again();
      await space.becomes(CAPSULE, home, 'Ready', 'False DatabaseLost');
      expect(await environment.databases()).toEqual(before);
      await space.removed(CAPSULE, home);
      expect(await space.list(ASSISTANT)).toEqual([]);
      expect(await environment.databases()).toEqual(before);
      // And begins with nothing.
      await space.settled();
      await space.removed(CAPSULE, home);
    },
  );

  test('is reported for its files, whose broker only refuses the principal, until it accepts it', async () => {
    await again({ objectStore: agreeingObjects() });
    await space.settled();
    await space.stop();
    await forgetUsage();
    let isRetired = true;
    const usage = () => (isRetired ? forbidden() : Promise.resolve({ usedBytes: 0, limitBytes: 1 }));
    await space.start({ objectStore: agreeingObjects({ usage }) });
    await space.becomes(CAPSULE, home, 'ObjectStoreReady', 'False BrokerRefused');
    const capsule = await space.get<kinds.Capsule>(CAPSULE, home);
    const why = capsule?.status?.conditions?.find(({ type }) => type === 'ObjectStoreReady')?.message;
    expect(why).toMatch(/restore the Capsule from a backup.*delete it and apply it again.*replace-principal/);
    isRetired = false;
    await again({ objectStore: agreeingObjects({ usage }) });
    await space.becomes(CAPSULE, home, 'ObjectStoreReady', READY);
    await space.removed(ASSISTANT, 'ledger');
    await space.removed(CAPSULE, home);
  });

  test('is also reported by an Assistant while its Capsule’s principal is refused', async () => {
    await again({ objectStore: agreeingObjects() });
    await space.settled();
    await space.stop();
    await forgetUsage();
    await space.start({ objectStore: agreeingObjects({ appUsage: forbidden }) });
    await space.becomes(ASSISTANT, 'ledger', 'ObjectStoreReady', 'False BrokerRefused');
    expect(await space.condition(ASSISTANT, 'ledger', 'DatabaseReady')).toBe(READY);
    await again({ objectStore: agreeingObjects() });
    await space.becomes(ASSISTANT, 'ledger', 'ObjectStoreReady', READY);
    await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
    await space.removed(ASSISTANT, 'ledger');
    await space.removed(CAPSULE, home);
  });
});

describe('a disk of the database server', () => {
  test('that is full is reported, loses nothing, and everything continues when there is space again', async (context) => {
    // The machine's own disk is not to be filled, and only root may mount a small one.
    if (!disk) return context.skip('this process may not mount a file system of its own');
    const { broker, server, sql } = environment.database;
    await space.settled();
    const url = await space.urlOf('ledger');
    const kept = await environment.databases();
    disk.leave(64 * 2 ** 10);
    try {
      // Spare databases serve the first of them.
      const ids = ['a', 'b', 'c', 'd', 'e', 'f'];
      for (const id of ids) await space.assistant(id, { capsule: home, manifest: manifest(id) });
      await eventually(
        async () => {
          const all = await Promise.all(ids.map((id) => space.condition(ASSISTANT, id, 'DatabaseReady')));
          return all.includes('False BrokerUnreachable');
        },
        { what: 'somebody is told' },
      );
      const asked = await broker.provisioner.provision('elsewhere', `spc_dbp_${'e'.repeat(43)}`);
      expect([200, 503]).toContain(asked.status);
      expect(asked.text).not.toMatch(/space left|53100|PANIC|CREATE/i);
      await space.becomes(ASSISTANT, 'ledger', 'WorkloadReady', READY);
    } finally {
      disk.leave(256 * 2 ** 20);
    }
    // Without room for its log the server ends itself, as it should; the kubelet starts it again.
    await sql('SELECT 1').catch(() => server.stop().then(server.start));
    for (const { metadata } of await space.list(ASSISTANT))
      await space.becomes(ASSISTANT, metadata.name, 'Ready', READY);
    expect(await environment.databases()).toEqual(expect.arrayContaining(kept));
    expect(await space.urlOf('ledger')).toBe(url);
    await space.removed(CAPSULE, home);
    await broker.provisioner.finalize('elsewhere');
  });
});

describe('kubectl get', () => {
  const table = (plural: string, wide = false) =>
    tableOf(
      environment.server.kubeconfig,
      `/apis/platform.space/v1/namespaces/${space.names.namespace}/${plural}`,
      wide,
    );

  test('shows whether an object is Ready, and if not why', async () => {
    await space.settled();
    const age = expect.any(String);
    const namespace = space.namespaceOf(home);
    const capsule = { Name: home, Ready: 'True', Reason: 'Ready', Namespace: namespace, Age: age };
    expect(await table('capsules')).toEqual([{ ...capsule, Assistants: 1, 'Assistants Ready': 1 }]);
    const ledger = { Name: 'ledger', Capsule: home, Id: 'ledger', Version: '1.0.0', Age: age };
    expect(await table('assistants')).toEqual([{ ...ledger, Ready: 'True', Reason: 'Ready' }]);
    const size = async () => (await table('assistants', true))[0]?.['Database Used'];
    await eventually(size, { what: 'the size of its database' });

    space.fates.set('registry.test/nothing:1', 'pull-fails');
    await space.patch(ASSISTANT, 'ledger', { spec: { image: 'registry.test/nothing:1' } });
    await space.becomes(ASSISTANT, 'ledger', 'Ready', 'False ImagePullFailed');
    const ill = { ...ledger, Ready: 'False', Reason: 'ImagePullFailed' };
    expect(await table('assistants')).toEqual([ill]);
    expect(await table('assistants', true)).toEqual([
      {
        ...ill,
        Sandbox: 'SandboxAvailable',
        Workload: 'ImagePullFailed',
        'On Deletion': 'Drop',
        'Database Used': expect.stringMatching(/^\d+Mi$/),
        'Storage Used': null,
        Since: age,
        Why: expect.stringContaining('Image "registry.test/nothing:1" cannot be pulled. Check'),
      },
    ]);
    await eventually(async () => (await table('capsules'))[0]?.['Assistants Ready'] === 0, {
      what: 'the count',
    });
    const [wide] = await table('capsules', true);
    expect(wide).toMatchObject({ Ready: 'True', Sandbox: 'True', Database: 'True', Why: age });
    await space.removed(CAPSULE, home);
  });
});
