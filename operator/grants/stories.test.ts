import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Secret } from '@space/contracts/secret';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  type CredentialClient,
  credentialsOf,
  type OwnStore,
  startOwnStore,
} from '../../brokers/objectstore/byok/credentials/testing/byok.ts';
import { type Issuer, newIssuer } from '../../brokers/objectstore/byok/grants/testing/issuer.ts';
import { DRIVER_DIRECTORY } from '../../brokers/objectstore/testing/broker.ts';
import { type Fixture, openFixtureOn } from '../../brokers/objectstore/testing/fixture.ts';
import { eventually } from '../../testing/eventually.ts';
import { GRANTED_MS, UNGRANTED_MS } from '../assistant/steps/grant.ts';
import { objectStoreBroker } from '../brokers/objects.ts';
import * as kinds from '../kinds.ts';
import { objectPrincipalSecretName, workloadObjectsSecretName } from '../names.ts';
import { manifest } from '../testing/manifest.ts';
import type { TestSpace } from '../testing/space.ts';
import { openTestEnvironment, type TestEnvironment } from '../testing/test-environment.ts';
import { grantKeyFile } from './sign.ts';

/** From a Capsule's selection to an object in its own bucket: real API server, PostgreSQL, and two S3 servers. */

const { ASSISTANT, DEPLOYMENT, POD, SECRET } = kinds;
const directory = mkdtempSync(join(tmpdir(), 'space-grants-'));
let [environment, own]: [TestEnvironment?, OwnStore?] = [];
let space: TestSpace;
let store: Fixture;
let namespace: string;
let credentials: CredentialClient;
let issuer: Issuer;

beforeAll(async () => {
  // One after the other: what did start is ended when the next does not.
  environment = await openTestEnvironment();
  own = await startOwnStore();
  space = await environment.space();
  issuer = newIssuer();
  const keysFile = join(directory, 'keys');
  writeFileSync(keysFile, issuer.keySet());
  const settings = {
    ...own.environment,
    SPACE_NAME: space.names.space,
    DATA_PLANE_BYOK: 'true',
    GRANT_KEYS_FILE: keysFile,
  };
  store = await openFixtureOn(environment.database.server, { environment: settings });
  await space.start({ objectStore: objectStore(), grantKey });
  namespace = await space.settled();
  const principal = await value(
    objectPrincipalSecretName(space.home),
    'principal',
    space.names.systemNamespace,
  );
  credentials = credentialsOf(store.broker.as(principal), space.home);
});
afterAll(async () => {
  await space?.close();
  await store?.close();
  await Promise.all([environment?.close(), own?.remove()]);
  rmSync(directory, { recursive: true });
});

const objectStore = () =>
  objectStoreBroker({
    url: store.broker.url,
    driver: readFileSync(join(DRIVER_DIRECTORY, 'objectstore.json')),
    provisionerToken: async () => new Secret(store.mounts.provisioner),
  });
let isBroken = false;
const grantKey = grantKeyFile('key', async () =>
  isBroken ? 'no key' : issuer.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
);

async function value(secret: string, key: string, where = namespace): Promise<string | undefined> {
  const found = await space.get<kinds.SecretObject>(SECRET, secret, where);
  const data = found?.data?.[key];
  return data === undefined ? undefined : Buffer.from(data, 'base64').toString('utf8');
}
const grant = () => value(workloadObjectsSecretName('ledger'), 'grant');
const claims = async () =>
  JSON.parse(Buffer.from((await grant())?.split('.')[1] ?? '', 'base64url').toString());
const deployment = () => space.get<kinds.Deployment>(DEPLOYMENT, 'ledger', namespace);
const variables = async (): Promise<Record<string, string | undefined>> =>
  Object.fromEntries(
    ((await deployment())?.spec?.template.spec?.containers[0]?.env ?? []).map(({ name, value }) => [
      name,
      value,
    ]),
  );
/** The annotation of the only pod by which the kubelet updates the grant sooner. */
async function hastened(): Promise<string | undefined> {
  const pods = await space.list<kinds.Pod>(POD, namespace);
  expect(pods).toHaveLength(1);
  return pods[0]?.metadata.annotations?.['platform.space/granted'];
}
/** A look now, instead of soon. */
const look = (mark: string) => space.patch(ASSISTANT, 'ledger', { metadata: { labels: { mark } } });

/** With the grant of the moment, or with what is given; `null` is none. */
async function put(key: string, given?: string | null): Promise<number> {
  const token = await value(workloadObjectsSecretName('ledger'), 'token');
  const text = given === undefined ? await grant() : (given ?? undefined);
  const response = await fetch(`${store.broker.dataUrl}/v1/objects/data/${key}`, {
    method: 'PUT',
    headers: { authorization: `Bearer ${token}`, ...(text === undefined ? {} : { 'platform-grant': text }) },
    body: 'text',
  });
  await response.arrayBuffer();
  return response.status;
}

test('an Assistant gets a grant for the set that its Capsule selects, again with each generation, and none without a selection', async () => {
  if (!own) throw new Error('no database');
  expect(await grant()).toBeUndefined();
  expect(await put('before')).toBe(200);
  const before = await deployment();
  expect((await variables())['OBJECT_STORE_GRANT_FILE']).toBe('/etc/space/credentials/OBJECT_STORE_GRANT');
  expect(await hastened()).toBeUndefined();

  const fields = own.fields();
  const { json } = await credentials.create('mine', fields, 0);
  await credentials.select(json.set_id, 1);
  expect(await put('between', null)).toBe(409);
  await look('selected');
  await eventually(async () => (await grant()) !== undefined, { what: 'a grant' });
  expect(await claims()).toMatchObject({
    space: space.names.space,
    capsule: space.home,
    app: 'ledger',
    ref: json.set_id,
    gen: 1,
  });
  expect(await put('after')).toBe(200);
  const marks = [await eventually(hastened, { what: 'the kubelet to be told' })];

  const first = await grant();
  await credentials.rotate(json.set_id, fields, 1);
  expect(await put('rotated', first)).toBe(409);
  // By itself: what has selected a set is looked at often.
  await eventually(async () => (await grant()) !== first, { what: 'another grant' });
  expect((await claims()).gen).toBe(2);
  expect(await put('rotated')).toBe(200);
  const again = async () => [undefined, ...marks].includes(await hastened()) === false;
  await eventually(again, { what: 'the kubelet to be told again' });
  marks.push((await hastened()) ?? '');

  // Looked at again, nothing is written while the grant is young.
  const second = await grant();
  const acts = space.run.acts.length;
  await look('again');
  await space.patch(ASSISTANT, 'ledger', { spec: { suspend: false } });
  const seen = async () => {
    const object = await space.get<kinds.Assistant>(ASSISTANT, 'ledger');
    return object?.status?.observedGeneration === object?.metadata.generation;
  };
  await eventually(seen, { what: 'a look' });
  expect(space.run.acts.slice(acts).filter((act) => /\/(secrets|pods)\//.test(act))).toEqual([]);
  expect(await grant()).toBe(second);

  await credentials.select(null, 3);
  await look('none');
  await eventually(async () => (await grant()) === undefined, { what: 'no grant' });
  expect(await put('managed')).toBe(200);
  await eventually(again, { what: 'the kubelet to be told of the end' });
  // The pods were never replaced for any of it.
  expect((await deployment())?.spec?.template).toEqual(before?.spec?.template);

  const { 'access-key-id': id, 'secret-access-key': secret } = fields;
  const everything = JSON.stringify([
    space.logs,
    store.broker.log,
    await space.list(SECRET, namespace),
    await space.list(SECRET),
    await deployment(),
    await space.get(ASSISTANT, 'ledger'),
  ]);
  for (const value of [id, secret])
    for (const spelt of [value, Buffer.from(value).toString('base64').replace(/=+$/, '')])
      expect(everything.includes(spelt)).toBe(false);
  for (const text of [first, second]) {
    const [, , signature = ''] = text?.split('.') ?? [];
    expect(JSON.stringify([space.logs, store.broker.log]).includes(signature)).toBe(false);
  }
});

test('with another signing key the next reconcile issues another grant', async () => {
  if (!own) throw new Error('no database');
  const { inventory_generation: generation } = (await credentials.list()).json;
  const { json } = await credentials.create('next', own.fields(), generation);
  await credentials.select(json.set_id, generation + 1);
  await look('next');
  await eventually(async () => (await grant()) !== undefined, { what: 'a grant' });
  const first = await grant();
  expect(await put('known')).toBe(200);
  issuer = newIssuer();
  await look('exchanged');
  await eventually(async () => (await grant()) !== first, { what: 'a grant under the other key' });
  // The broker was not given that key.
  expect(await put('unknown')).toBe(403);
});

test('while the signing key is broken an Assistant that needs it says so and keeps its grant, others go on, and it continues once the key is mended', async () => {
  const before = await grant();
  expect(before).toBeDefined();
  isBroken = true;
  await look('broken');
  await space.becomes(ASSISTANT, 'ledger', 'ObjectStoreReady', 'False GrantKeyUnusable');
  await space.becomes(ASSISTANT, 'ledger', 'WorkloadReady', 'True Ready');
  expect(await grant()).toBe(before);
  const plain = `${space.home}-plain`;
  await space.capsule(plain);
  await space.assistant('plain', { capsule: plain, manifest: manifest('plain') });
  await space.becomes(ASSISTANT, 'plain', 'Ready', 'True Ready');
  isBroken = false;
  await space.becomes(ASSISTANT, 'ledger', 'Ready', 'True Ready');
  await space.removed(kinds.CAPSULE, plain);
});

test('an Assistant loses its grant if grants are disabled for the Space, and has it again once they are enabled', async () => {
  expect(await grant()).toBeDefined();
  await space.stop();
  await space.start({ objectStore: objectStore() });
  await eventually(async () => (await grant()) === undefined, { what: 'no grant' });
  const file = async () => (await variables())['OBJECT_STORE_GRANT_FILE'];
  await eventually(async () => (await file()) === undefined, { what: 'pods without a grant' });
  expect(JSON.stringify((await deployment())?.spec)).not.toContain('GRANT');
  await space.becomes(ASSISTANT, 'ledger', 'Ready', 'True Ready');

  await space.stop();
  await space.start({ objectStore: objectStore(), grantKey });
  await eventually(async () => (await grant()) !== undefined && (await file()) !== undefined, {
    what: 'a grant again',
  });
  await space.becomes(ASSISTANT, 'ledger', 'Ready', 'True Ready');
});

test('the selection of a Capsule that has selected a set is read often, and once for all its Assistants', async () => {
  const askedAt: number[] = [];
  const broker = objectStore();
  await space.stop();
  await space.start({
    grantKey,
    objectStore: {
      ...broker,
      async selection(...args) {
        const at = performance.now();
        const answer = await broker.selection(...args);
        // What failed is asked again, at any time.
        askedAt.push(at);
        return answer;
      },
    },
  });
  await space.assistant('second', { capsule: space.home, manifest: manifest('second') });
  await space.becomes(ASSISTANT, 'second', 'Ready', 'True Ready');
  const granted = async () => (await value(workloadObjectsSecretName('second'), 'grant')) !== undefined;
  await eventually(granted, { what: 'a grant of the second' });
  const pauses = () => askedAt.slice(1).map((at, i) => at - (askedAt[i] ?? 0));
  // One of them is enough: a busy machine makes any of them longer.
  await eventually(() => pauses().length >= 2 && Math.min(...pauses()) < 0.9 * UNGRANTED_MS, {
    what: 'the Capsule to be asked for twice more, and sooner than one without a selection',
  });
  expect(Math.min(...pauses())).toBeGreaterThan(0.95 * GRANTED_MS);
});
