import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { BrokerError } from '@space/contracts/client';
import { Secret } from '@space/contracts/secret';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { DRIVER_DIRECTORY } from '../brokers/objectstore/testing/broker.ts';
import { type Fixture, openFixtureOn } from '../brokers/objectstore/testing/fixture.ts';
import { eventually } from '../testing/eventually.ts';
import { type ObjectStoreBroker, objectStoreBroker } from './brokers/objects.ts';
import * as kinds from './kinds.ts';
import {
  ANNOTATION,
  LABEL,
  objectPrincipalSecretName,
  principalSecretName,
  workloadObjectsSecretName,
} from './names.ts';
import { pathOf } from './runtime/kube-object.ts';
import type { TestSpace } from './testing/space.ts';
import { openTestEnvironment, type TestEnvironment } from './testing/test-environment.ts';

/** A Space with both brokers, on a real API server, PostgreSQL and S3 server. */

const { ASSISTANT, CAPSULE, DEPLOYMENT, SECRET } = kinds;
const READY = 'True Ready';
const STORE = { name: 'object-storage broker', deployment: 'objectstore-broker' };
let environment: TestEnvironment;
let store: Fixture;
let broker: ObjectStoreBroker;
let space: TestSpace;
let home: string;
let usagesAsked = 0;
let sizesAsked = 0;

beforeAll(async () => {
  environment = await openTestEnvironment();
  store = await openFixtureOn(environment.database.server);
  const asked = objectStoreBroker({
    url: store.broker.url,
    driver: readFileSync(join(DRIVER_DIRECTORY, 'objectstore.json')),
    provisionerToken: async () => new Secret(store.mounts.provisioner),
  });
  broker = {
    ...asked,
    usage: (...call) => {
      usagesAsked += 1;
      return asked.usage(...call);
    },
    appUsage: (...call) => {
      sizesAsked += 1;
      return asked.appUsage(...call);
    },
  };
});
afterAll(async () => {
  await store?.close();
  await environment?.close();
});
beforeEach(async () => {
  space = await environment.space();
  home = space.home;
  await space.start({ objectStore: broker });
});
afterEach(() => space.close());

const read = async (name: string, namespace?: string) =>
  space.get<kinds.SecretObject>(SECRET, name, namespace);
const tokenOf = async (namespace: string, id = 'ledger') => {
  const secret = await read(workloadObjectsSecretName(id), namespace);
  return Buffer.from(secret?.data?.['token'] ?? '', 'base64').toString('utf8');
};
/** What the data listener says to a request with this token. */
async function status(token: string, key: string, body?: string): Promise<number> {
  const response = await fetch(`${store.broker.dataUrl}/v1/objects/data/${key}`, {
    method: body === undefined ? 'GET' : 'PUT',
    headers: { authorization: `Bearer ${token}` },
    ...(body === undefined ? {} : { body }),
  });
  await response.arrayBuffer();
  return response.status;
}
const quotas = async () =>
  (
    await store.registry<{ quota: string | null }>(
      'SELECT quota_bytes AS quota FROM broker.store WHERE capsule_id = $1',
      [home],
    )
  ).map(({ quota }) => quota);
const capsules = () =>
  store.registry<{ id: string; state: string }>(
    'SELECT capsule_id AS id, state FROM broker.capsule WHERE capsule_id = $1',
    [home],
  );

describe('an Assistant with files', () => {
  test('gets its own place, of which nothing is left after its deletion', async () => {
    const namespace = await space.settled();
    await space.becomes(CAPSULE, home, 'ObjectStoreReady', READY);
    await space.becomes(ASSISTANT, 'ledger', 'ObjectStoreReady', READY);
    const token = await tokenOf(namespace);
    expect(token).toMatch(/^spc_osw_[A-Za-z0-9_-]{43}$/);
    expect([await status(token, 'a', 'text'), await status(token, 'a')]).toEqual([200, 200]);

    const deployment = await space.get<kinds.Deployment>(DEPLOYMENT, 'ledger', namespace);
    const pod = deployment?.spec?.template.spec;
    expect(pod?.hostAliases?.map(({ hostnames }) => hostnames)).toEqual([['postgres'], ['objectstore']]);
    const variables = Object.fromEntries(
      (pod?.containers[0]?.env ?? []).map(({ name, value }) => [name, value]),
    );
    expect(variables).toMatchObject({
      OBJECT_STORE_URL: 'http://objectstore:8081',
      OBJECT_STORE_TOKEN_FILE: '/etc/space/credentials/OBJECT_STORE_TOKEN',
    });
    // The Capsule's principal stays where no pod can see it.
    expect(JSON.stringify(pod)).not.toContain(objectPrincipalSecretName(home));

    await space.removed(ASSISTANT, 'ledger');
    expect(await space.list(SECRET, namespace)).toEqual([]);
    expect(await status(token, 'a')).toBe(403);
    await space.removed(CAPSULE, home);
    expect(await read(objectPrincipalSecretName(home))).toBeUndefined();
    expect(await capsules()).toEqual([{ id: home, state: 'finalized' }]);
    expect(
      await store.registry(`SELECT 1 FROM broker.workload WHERE capsule_id = $1 AND state <> 'dropped'`, [
        home,
      ]),
    ).toEqual([]);
  });

  test('gets a new token before the next sweep if somebody deletes its Secret while the pod starts', async () => {
    const image = 'registry.test/slow:1';
    space.fates.set(image, 'pending');
    await space.capsule(home);
    await space.assistant('ledger', { capsule: home, image });
    await space.becomes(ASSISTANT, 'ledger', 'WorkloadReady', 'False Starting');
    const namespace = space.namespaceOf(home);
    const before = await tokenOf(namespace);
    await space.delete(SECRET, workloadObjectsSecretName('ledger'), namespace);
    await eventually(async () => !['', before].includes(await tokenOf(namespace)), {
      what: 'another token',
      within: 180_000,
    });
  });

  test('keeps its files with Retain, and a new Capsule of that name takes them over', async () => {
    const namespace = await space.settled();
    expect(await status(await tokenOf(namespace), 'kept', 'text')).toBe(200);
    await space.patch(CAPSULE, home, { spec: { deletionPolicy: 'Retain' } });
    await space.removed(CAPSULE, home);
    const kept = await read(objectPrincipalSecretName(home));
    expect(kept?.metadata.labels?.[LABEL.retained]).toBe('true');

    await space.settled();
    expect(await status(await tokenOf(namespace), 'kept')).toBe(200);
    await space.removed(CAPSULE, home);
    expect(await capsules()).toEqual([{ id: home, state: 'finalized' }]);
  });

  test('keeps its files if the request to keep them comes between the two brokers, and reports that the rest is lost', async () => {
    const away = { ...broker, drop: () => Promise.reject(new BrokerError(STORE, 'unreachable', 'away')) };
    await space.stop();
    await space.start({ objectStore: away });
    await space.capsule(home);
    await space.becomes(CAPSULE, home, 'Ready', READY);
    const principal = await read(objectPrincipalSecretName(home));
    await space.delete(CAPSULE, home);
    await space.becomes(CAPSULE, home, 'Finalized', 'False BrokerUnreachable');
    await space.patch(CAPSULE, home, { spec: { deletionPolicy: 'Retain' } });
    await space.goes(CAPSULE, home);
    // Events are sent beside the work that they tell of.
    const ended = await eventually(
      async () => (await space.events(home)).find(({ reason }) => reason === 'CapsuleFinalized'),
      { what: 'the Event' },
    );
    expect(ended.note).toMatch(/^Its databases are dropped: .* Its files are kept\.$/);
    expect(await capsules()).toEqual([{ id: home, state: 'active' }]);

    await space.capsule(home);
    await space.becomes(CAPSULE, home, 'Ready', READY);
    expect((await read(objectPrincipalSecretName(home)))?.data).toEqual(principal?.data);
    await space.stop();
    await space.start({ objectStore: broker });
    await space.removed(CAPSULE, home);
    expect(await capsules()).toEqual([{ id: home, state: 'finalized' }]);
  });

  test('that keeps its files is removed with its token, and the next one with its id has the files', async () => {
    const namespace = await space.settled();
    const old = await tokenOf(namespace);
    expect(await status(old, 'kept', 'text')).toBe(200);
    await space.patch(ASSISTANT, 'ledger', { spec: { deletionPolicy: 'Retain' } });
    await space.removed(ASSISTANT, 'ledger');
    expect(await read(workloadObjectsSecretName('ledger'), namespace)).toBeUndefined();
    expect(await status(old, 'kept')).toBe(403);

    await space.assistant('ledger', { capsule: home });
    await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
    expect(await status(await tokenOf(namespace), 'kept')).toBe(200);
    expect(await status(old, 'kept')).toBe(403);
    await space.removed(CAPSULE, home);
    expect(await capsules()).toEqual([{ id: home, state: 'finalized' }]);
  });

  test('does not end without them if its Capsule’s principal is lost after its condition was False', async () => {
    await space.settled();
    await space.rests();
    await space.delete(kinds.RUNTIME_CLASS, space.names.runtimeClass);
    await space.becomes(CAPSULE, home, 'SandboxReady', 'False RuntimeClassNotFound');
    await space.stop();
    const found = await space.get<kinds.Assistant>(ASSISTANT, 'ledger');
    const conditions = found?.status?.conditions?.map((one) =>
      one.type === 'ObjectStoreReady' ? { ...one, status: 'False', reason: 'BrokerUnreachable' } : one,
    );
    await environment.server.client.call({
      method: 'PATCH',
      path: pathOf(ASSISTANT, space.names.namespace, 'ledger', 'status'),
      contentType: 'application/merge-patch+json',
      body: { status: { conditions } },
    });
    const principal = await read(objectPrincipalSecretName(home));
    await space.delete(SECRET, objectPrincipalSecretName(home));
    await space.delete(ASSISTANT, 'ledger');
    await space.start({ objectStore: broker });
    await space.becomes(ASSISTANT, 'ledger', 'Finalized', 'False PrincipalLost');
    const { name, labels, annotations } = principal?.metadata ?? { name: '' };
    await environment.server.client.call({
      method: 'POST',
      path: pathOf(SECRET, space.names.systemNamespace),
      body: { ...principal, metadata: { name, labels, annotations } },
    });
    await space.goes(ASSISTANT, 'ledger');
    const left = `SELECT 1 FROM broker.workload WHERE capsule_id = $1 AND state <> 'dropped'`;
    expect(await store.registry(left, [home])).toEqual([]);
    await space.removed(CAPSULE, home);
    expect(await capsules()).toEqual([{ id: home, state: 'finalized' }]);
  });

  test('has no token and locked files in the grace period after a deletion', async () => {
    await space.stop();
    await space.start({ objectStore: broker, graceMs: 3_600_000 });
    const namespace = await space.settled();
    const old = await tokenOf(namespace);
    expect(await status(old, 'kept', 'text')).toBe(200);
    await space.delete(ASSISTANT, 'ledger');
    await space.becomes(ASSISTANT, 'ledger', 'Finalized', 'False RetentionGrace');
    expect(await read(workloadObjectsSecretName('ledger'), namespace)).toBeUndefined();
    expect(await status(old, 'kept')).toBe(403);

    await space.patch(ASSISTANT, 'ledger', { spec: { deletionPolicy: 'Retain' } });
    await space.goes(ASSISTANT, 'ledger');
    await space.assistant('ledger', { capsule: home });
    await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
    expect(await status(await tokenOf(namespace), 'kept')).toBe(200);
    await space.stop();
    await space.start({ objectStore: broker });
    await space.removed(CAPSULE, home);
    expect(await capsules()).toEqual([{ id: home, state: 'finalized' }]);
  });

  test('is limited by the quota of the spec as soon as it changes', async () => {
    await space.settled();
    expect(await quotas()).toEqual([null]);
    await space.patch(CAPSULE, home, { spec: { quota: { storage: '1Ki' } } });
    await eventually(async () => (await quotas())[0] === '1024', { what: 'the new quota' });
    const token = await tokenOf(space.namespaceOf(home));
    await eventually(async () => (await status(token, 'big', 'x'.repeat(2_000))) === 507, {
      what: 'a refusal for want of room',
    });
  });

  test('is limited by the quota of the spec again after the registry was set back', async () => {
    await space.settled();
    await space.patch(CAPSULE, home, { spec: { quota: { storage: '2Ki' } } });
    await eventually(async () => (await quotas())[0] === '2048', { what: 'the new quota' });
    await space.stop();
    const principal = await read(objectPrincipalSecretName(home));
    const token = new Secret(Buffer.from(principal?.data?.['principal'] ?? '', 'base64').toString('utf8'));
    await broker.provision(home, token, 1024, new AbortController().signal);
    await environment.server.client.call({
      method: 'PATCH',
      path: pathOf(CAPSULE, space.names.namespace, home, 'status'),
      contentType: 'application/merge-patch+json',
      // Otherwise it is read only after minutes.
      body: { status: { usage: null } },
    });
    // It is away when the quota is sent to it first.
    let sent = 0;
    const away: ObjectStoreBroker = {
      ...broker,
      provision: async (...call) => {
        sent += 1;
        if (sent === 1) throw new BrokerError(STORE, 'unreachable', 'away');
        await broker.provision(...call);
      },
    };
    await space.start({ objectStore: away });
    await eventually(async () => (await quotas())[0] === '2048', { what: 'the quota of the spec' });
    expect(sent).toBeGreaterThan(1);
    await space.removed(CAPSULE, home);
  });

  test('reports its Capsule’s usage in coarse steps, which is read when the quota changes and not at each reconcile', async () => {
    const namespace = await space.settled();
    const usage = async () => (await space.get<kinds.Capsule>(CAPSULE, home))?.status?.usage?.storage;
    await eventually(async () => (await usage()) === '0', { what: 'the usage of an empty Capsule' });
    const before = usagesAsked;
    const token = await tokenOf(namespace);
    expect(await status(token, 'big', 'x'.repeat(6 * 2 ** 20))).toBe(200);
    await space.patch(CAPSULE, home, { spec: { displayName: 'Touched' } });
    const seen = async () => {
      const object = await space.get<kinds.Capsule>(CAPSULE, home);
      return object?.status?.observedGeneration === object?.metadata.generation;
    };
    await eventually(seen, { what: 'a look at the Capsule' });
    expect([usagesAsked, await usage()]).toEqual([before, '0']);
    await space.patch(CAPSULE, home, { spec: { quota: { storage: '400Mi' } } });
    // Twentieths of the quota; the broker has taken some ahead, too.
    await eventually(async () => /^(?:20|40|60|80)Mi$/.test((await usage()) ?? ''), {
      what: 'the usage of one object',
    });
    expect(usagesAsked).toBe(before + 1);
  });

  test('reports its own usage once it runs, which is read only at sweeps', async () => {
    await space.settled();
    const told = async () => (await space.get<kinds.Assistant>(ASSISTANT, 'ledger'))?.status?.usage;
    const touch = (touched: string) => space.patch(ASSISTANT, 'ledger', { spec: { args: [touched] } });
    await touch('once');
    // An empty database has catalogues of some mebibytes.
    const first = { database: expect.stringMatching(/^[1-9]\d*Mi$/), storage: '0' };
    expect(await eventually(told, { what: 'the sizes' })).toEqual(first);
    const before = sizesAsked;
    await touch('again');
    const seen = async () => {
      const object = await space.get<kinds.Assistant>(ASSISTANT, 'ledger');
      return object?.status?.observedGeneration === object?.metadata.generation;
    };
    await eventually(seen, { what: 'a look at the Assistant' });
    expect(sizesAsked).toBe(before);
    expect(await told()).toEqual(first);
  });

  test('gets another token if its Secret is lost, and the old one is no longer valid', async () => {
    const namespace = await space.settled();
    const old = await tokenOf(namespace);
    expect(await status(old, 'a', 'text')).toBe(200);
    await space.delete(SECRET, workloadObjectsSecretName('ledger'), namespace);
    await space.patch(ASSISTANT, 'ledger', { metadata: { labels: { touched: 'yes' } } });
    await eventually(async () => /^spc_osw_/.test(await tokenOf(namespace)), { what: 'another token' });
    await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
    const fresh = await tokenOf(namespace);
    expect(fresh).not.toBe(old);
    await eventually(async () => (await status(fresh, 'a')) === 200, {
      what: 'the file under the new token',
    });
    // The broker lets it end before it answers that the new one has taken its place.
    await eventually(async () => (await status(old, 'a')) === 403, { what: 'the end of the old token' });
  });
});

describe('while the gate is closed', () => {
  test('nothing of a Capsule is provisioned (quota, rotation, lost URL) until the gate opens', async () => {
    await space.settled();
    await space.becomes(CAPSULE, home, 'Ready', READY);
    const { runtimeClass, handler } = space.names;
    await space.delete(kinds.RUNTIME_CLASS, runtimeClass);
    await space.becomes(CAPSULE, home, 'SandboxReady', 'False RuntimeClassNotFound');
    const provisions = () => space.run.acts.filter((act) => act.includes('provision'));
    const before = provisions();
    const principal = await read(principalSecretName(home));
    await space.patch(SECRET, principalSecretName(home), { data: { 'database-url': null } });
    await space.patch(CAPSULE, home, {
      metadata: { annotations: { [ANNOTATION.rotate]: 'now' } },
      spec: { quota: { storage: '300Mi' } },
    });
    const looked = async () => {
      const object = await space.get<kinds.Capsule>(CAPSULE, home);
      return object?.status?.observedGeneration === object?.metadata.generation;
    };
    await eventually(looked, { what: 'a look at the Capsule' });
    expect(provisions()).toEqual(before);
    // Existing data is still registered, and its usage is still reported.
    expect(await space.condition(CAPSULE, home, 'DatabaseReady')).toBe(READY);
    expect(await space.condition(CAPSULE, home, 'ObjectStoreReady')).toBe(READY);

    const body = { metadata: { name: runtimeClass }, handler };
    await environment.server.client.call({ method: 'POST', path: pathOf(kinds.RUNTIME_CLASS), body });
    const caughtUp = async () => {
      const { data, metadata } = (await read(principalSecretName(home))) ?? {};
      const objects = await read(objectPrincipalSecretName(home));
      return (
        data?.['database-url'] !== undefined &&
        metadata?.annotations?.[ANNOTATION.rotated] === 'now' &&
        objects?.metadata.annotations?.[ANNOTATION.provisioned] === String(300 * 2 ** 20)
      );
    };
    await eventually(caughtUp, { what: 'what was asked for meanwhile' });
    expect((await read(principalSecretName(home)))?.data?.['principal']).toBe(principal?.data?.['principal']);
  });
});

describe('at rest', () => {
  test('neither broker is called', async () => {
    await space.settled();
    const before = space.run.acts.length;
    for (const [resource, name] of [
      [CAPSULE, home],
      [ASSISTANT, 'ledger'],
    ] as const) {
      await space.patch(resource, name, { spec: { suspend: false } });
      const seen = async () => {
        const object = await space.get<kinds.Capsule>(resource, name);
        return object?.status?.observedGeneration === object?.metadata.generation;
      };
      await eventually(seen, { what: `a look at ${name}` });
    }
    expect(space.run.acts.slice(before).filter((act) => !act.endsWith('/status'))).toEqual([]);
  });
});

describe('when it is killed after any step', () => {
  test('the next operator completes what was begun, with one token each', async () => {
    await space.stop();
    let acts = 0;
    for (let dieAfter = 1; dieAfter < 200; dieAfter += 1) {
      await space.start({ objectStore: broker, dieAfter });
      if (dieAfter === 1) {
        await space.capsule(home);
        await space.assistant('ledger', { capsule: home });
      }
      await eventually(
        async () =>
          space.run.dead || (await space.condition(ASSISTANT, 'ledger', 'Ready').catch(() => '')) === READY,
        { what: 'the death or the end' },
      );
      const { dead } = space.run;
      acts += space.run.acts.length;
      await space.stop();
      if (!dead) break;
    }
    expect(acts).toBeGreaterThan(10);
    await space.start({ objectStore: broker });
    await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
    const audit = await store.registry<{ outcome: string }>(
      `SELECT outcome FROM broker.audit WHERE capsule_id = $1 AND outcome IN ('created', 'replaced')`,
      [home],
    );
    expect(audit.map(({ outcome }) => outcome)).toEqual(['created', 'created']);
    const secret = await read(objectPrincipalSecretName(home));
    expect(secret?.metadata.annotations?.[ANNOTATION.provisioned]).toBe('default');
  });
});
