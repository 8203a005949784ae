import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest';
import type { Assistant } from '../../testing/assistant.ts';
import type { TestBroker } from '../../testing/broker.ts';
import { type ByokFixture, grantOf, openByokFixture } from './testing/byok-fixture.ts';

/** Requests to Capsules' own servers that do not answer, of so many Capsules that they have all slots for these. */

const SLOTS = 4;

let fixture: ByokFixture;
let broker: TestBroker;
beforeAll(async () => {
  fixture = await openByokFixture();
  broker = await fixture.replica({
    environment: {
      ...fixture.environment,
      ...{ OBJECT_CONNECTIONS: String(SLOTS), OBJECT_STREAMS: String(SLOTS), OBJECT_QUEUE_SECONDS: '25' },
    },
    pace: { tickMs: 100, pressedWindowMs: 2_000, pressedLeastBytes: 64 * 1024 },
  });
});
afterEach(() => {
  process.kill(fixture.own.server.pid, 'SIGCONT');
});
afterAll(async () => {
  await broker?.stop();
  await fixture?.close();
});

/** An Assistant of a new Capsule with a bucket of its own, and a connection to its server. */
async function withOwn(capsule: string): Promise<Assistant> {
  return (await grantedOwn(capsule)).one;
}

async function grantedOwn(capsule: string) {
  const home = await fixture.home(capsule);
  const { json } = await home.credentials.create('mine', fixture.own.fields(), 0);
  expect((await home.credentials.select(json.set_id, 1)).status).toBe(200);
  const grant = await grantOf(fixture.issuer, home, { set_id: json.set_id, generation: 1 });
  const one = home.at(broker, grant);
  expect((await one.put('there', 'x')).status).toBe(200);
  return { one, grant };
}

async function places(state: 'held' | 'waiting'): Promise<number> {
  const text = await (await fetch(`http://127.0.0.1:${broker.metricsPort}/metrics`)).text();
  return Number(
    new RegExp(`^space_objectstore_places{.*own-buckets.*${state}.*} (.*)$`, 'm').exec(text)?.[1],
  );
}

const REQUESTS: Readonly<Record<string, (one: Assistant) => Promise<{ status: number }>>> = {
  downloads: (one) => one.get('there'),
  lists: (one) => one.call('GET', '/v1/objects/data'),
  copies: (one) => one.post('/v1/copies/data', { from: 'there', to: 'to' }),
  uploads: (one) => one.put('new', 'x'),
};

test.each(Object.entries(REQUESTS))(
  '%s: one is ended while a Capsule with fewer waits, which has its slot then',
  async (name, act) => {
    const greedy: Assistant[] = [];
    for (let n = 0; n < SLOTS; n += 1) greedy.push(await withOwn(`${name}-${n}`));
    const modest = await withOwn(`${name}-modest`);
    process.kill(fixture.own.server.pid, 'SIGSTOP');
    const stuck = greedy.map(act);
    await vi.waitFor(async () => expect(await places('held')).toBe(SLOTS), 60_000);
    const answer = modest.get('there');
    const first = await Promise.race(stuck);
    expect(first.status).toBe(503);
    await vi.waitFor(async () => expect(await places('waiting')).toBe(0), 60_000);
    process.kill(fixture.own.server.pid, 'SIGCONT');
    expect((await answer).status).toBe(200);
    await Promise.all(stuck);
  },
);

test('a completion whose caller hangs up leaves no slot behind, whatever its server does', async () => {
  const { one, grant } = await grantedOwn('hangs-up');
  const { upload_id: id } = (await one.post('/v1/uploads/data', { key: 'parts' })).json;
  const { etag } = (await one.call('PUT', `/v1/uploads/data/${id}/1`, { body: 'x' })).json;
  process.kill(fixture.own.server.pid, 'SIGSTOP');
  const gone = new AbortController();
  const completing = fetch(`${broker.dataUrl}/v1/uploads/data/${id}/complete`, {
    method: 'POST',
    headers: {
      ...{ authorization: `Bearer ${one.token}`, 'platform-grant': grant },
      'content-type': 'application/json',
    },
    body: JSON.stringify({ parts: [{ number: 1, etag }] }),
    signal: gone.signal,
  }).catch(() => 'gone');
  await vi.waitFor(async () => expect(await places('held')).toBe(1), 20_000);
  gone.abort();
  expect(await completing).toBe('gone');
  await vi.waitFor(async () => expect(await places('held')).toBe(0), 20_000);
  process.kill(fixture.own.server.pid, 'SIGCONT');
  await vi.waitFor(
    async () =>
      expect(
        (await one.post(`/v1/uploads/data/${id}/complete`, { parts: [{ number: 1, etag }] })).status,
      ).toBe(200),
    60_000,
  );
  expect((await one.get('parts')).text).toBe('x');
});
