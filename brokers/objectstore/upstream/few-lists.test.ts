import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { eventually } from '../../../testing/eventually.ts';
import { type Assistant, assistant, newAssistant } from '../testing/assistant.ts';
import { type Between, type Fate, startBetween } from '../testing/between.ts';
import type { TestBroker } from '../testing/broker.ts';
import { type Fixture, openFixture } from '../testing/fixture.ts';

/** Lists of the Space's own S3 server, which reads a whole folder into its memory for each page. */

let fixture: Fixture;
let between: Between;
let broker: TestBroker;
/** Lists of Assistants that the S3 server has received and may not answer yet. */
let listing = 0;
let most = 0;
/** Whether all lists are held, or only those of prefixes with this word. */
let holdsAll = false;
let answer = Promise.withResolvers<void>();

beforeAll(async () => {
  fixture = await openFixture();
  between = await startBetween(fixture.s3);
  broker = await fixture.replica({
    environment: { S3_ENDPOINT: between.endpoint, S3_BUCKET: 'own', S3_CREATE_BUCKET: 'true' },
  });
});
afterAll(async () => {
  answer.resolve();
  await broker?.stop();
  await between?.close();
  await fixture?.close();
});

beforeEach(() => {
  [listing, most, holdsAll, answer] = [0, 0, false, Promise.withResolvers()];
  const isList = (url = '') =>
    (/list-type=2/.test(url) && /prefix=c(%2F|\/)[0-9a-f]{40}/.test(url)) || url.includes('max-parts=');
  const held = new WeakSet<object>();
  between.begun = (request) => {
    if (!isList(request.url) || !(holdsAll || request.url?.includes('held'))) return;
    held.add(request);
    listing += 1;
    most = Math.max(most, listing);
  };
  between.fate = async (request): Promise<Fate> => {
    if (!held.has(request)) return 'pass';
    await answer.promise;
    listing -= 1;
    return 'pass';
  };
});

const list = (of: Assistant, signal?: AbortSignal) =>
  fetch(`${broker.dataUrl}/v1/objects/data?prefix=held`, {
    headers: { authorization: `Bearer ${of.token}` },
    ...(signal ? { signal } : {}),
  }).then(async (response) => {
    await response.arrayBuffer();
    return response.status;
  });

it('are limited at one time for one Capsule and in total, and the others get their turn', async () => {
  const [one, two] = [await newAssistant(broker), await newAssistant(broker)];
  const many = Array.from({ length: 8 }, () => list(one));
  await eventually(() => listing >= 2, { what: 'the lists of one Capsule' });
  const others = [list(two), list(two)];
  await eventually(() => listing >= 3, { what: 'a list of another one' });
  answer.resolve();
  expect(new Set(await Promise.all([...many, ...others]))).toEqual(new Set([200]));
  expect(most).toBe(3);
});

it('are not more when their callers disconnect, since the server continues to read', async () => {
  const one = await newAssistant(broker);
  const gone = new AbortController();
  const many = Array.from({ length: 4 }, () => list(one, gone.signal).catch(() => 'gone'));
  await eventually(() => listing >= 2, { what: 'its lists' });
  gone.abort();
  expect(new Set(await Promise.all(many))).toEqual(new Set(['gone']));
  const later = list(one);
  // The broker has noticed that they disconnected once it answers this.
  expect((await one.get('nothing')).status).toBe(404);
  expect(most).toBe(2);
  answer.resolve();
  expect(await later).toBe(200);
  expect(most).toBe(2);
});

it('are not more when objects are put where a folder is, which is then looked into', async () => {
  const one = await newAssistant(broker);
  expect((await one.put('held/beneath', '')).status).toBe(200);
  const puts = Array.from({ length: 16 }, () => one.put('held', 'x'));
  await eventually(() => listing >= 2, { what: 'a look into the folder' });
  // The broker has sent what it sends of the others once it answers this.
  expect((await one.get('nothing')).status).toBe(404);
  answer.resolve();
  expect(new Set((await Promise.all(puts)).map(({ status }) => status))).toEqual(new Set([409]));
  expect(most).toBe(2);
});

it('are not more with lists of parts', async () => {
  const one = await newAssistant(broker);
  const { upload_id: id } = (await one.post('/v1/uploads/data', { key: 'held' })).json;
  const parts = Array.from({ length: 8 }, () => one.call('GET', `/v1/uploads/data/${id}`));
  const all = [...parts, list(one)];
  await eventually(() => listing >= 2, { what: 'lists' });
  expect((await one.get('nothing')).status).toBe(404);
  answer.resolve();
  await Promise.all(all);
  expect((await parts[0])?.status).toBe(200);
  expect(most).toBe(2);
});

it('are not more with those of the upkeep', async () => {
  const owners = await Promise.all(['a', 'b'].map((id) => broker.capsule(`few${id}`)));
  const apps = await Promise.all(
    owners.map(async (owner, i) =>
      assistant(broker.dataUrl, await broker.workload(owner, `few${'ab'[i]}`, 'app')),
    ),
  );
  holdsAll = true;
  const lists = apps.flatMap((one) => [list(one), list(one)]);
  const sizes = owners.map((owner, i) =>
    owner.post('/v1/capsules/apps/usage', { capsule_id: `few${'ab'[i]}`, app_id: 'app' }),
  );
  await eventually(() => listing >= 3, { what: 'lists' });
  expect((await apps[0]?.get('nothing'))?.status).toBe(404);
  answer.resolve();
  expect(new Set(await Promise.all(lists))).toEqual(new Set([200]));
  for (const size of await Promise.all(sizes)) expect(size.status).toBe(200);
  expect(most).toBe(3);
});

it('of the upkeep do not wait behind those of their Capsule', async () => {
  const owner = await broker.capsule('fewc');
  const one = assistant(broker.dataUrl, await broker.workload(owner, 'fewc', 'app'));
  holdsAll = true;
  const lists = Array.from({ length: 16 }, () => list(one));
  await eventually(() => listing >= 2, { what: 'lists of the Capsule' });
  const size = owner.post('/v1/capsules/apps/usage', { capsule_id: 'fewc', app_id: 'app' });
  await eventually(() => listing >= 3, { what: 'a list of the upkeep', within: 10_000 });
  answer.resolve();
  expect((await size).json.used_bytes).toBe(0);
  expect(new Set(await Promise.all(lists))).toEqual(new Set([200]));
  expect(most).toBe(3);
});
