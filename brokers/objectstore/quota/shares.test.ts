import { Turns } from '@space/broker-kit';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { eventually } from '../../../testing/eventually.ts';
import { type Assistant, newAssistant } from '../testing/assistant.ts';
import { type Fixture, openFixture } from '../testing/fixture.ts';
import { callRaw, type RawCaller } from '../testing/raw.ts';

/** What Capsules that use all they can get leave for others. */

const MIB = 1024 * 1024;
const [CAPSULES, READERS] = [4, 64];
/** So few that these Capsules would have all of them, did each get as many as it asks for. */
const CONNECTIONS = CAPSULES * READERS;

let fixture: Fixture;
beforeAll(async () => {
  fixture = await openFixture({
    environment: {
      OBJECT_CONNECTIONS: String(CONNECTIONS),
      OBJECT_QUEUE_SECONDS: '2',
      CONNECTIONS: '4000',
      CONNECTIONS_PER_ADDRESS: '1000',
    },
    // No transfer is ended for being slow: the limit of slots alone has to suffice.
    pace: { pressedLeastBytes: 0 },
  });
});
afterAll(() => fixture?.close());

const greedy: { readonly owner: Assistant; readonly readers: readonly RawCaller[] }[] = [];
const pacers: NodeJS.Timeout[] = [];
afterAll(() => {
  for (const pacer of pacers) clearInterval(pacer);
  for (const { readers } of greedy) for (const { socket } of readers) socket.destroy();
});

/** Takes some 32 KiB a second, for as long as it is let. */
async function slowReader(token: string): Promise<RawCaller> {
  const caller = await callRaw(fixture.broker.dataUrl);
  caller.socket.removeAllListeners('data');
  caller.socket.pause();
  caller.send(`GET /v1/objects/data/wide HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${token}\r\n\r\n`);
  pacers.push(setInterval(() => void caller.socket.read(8 * 1024), 250));
  return caller;
}

const places = async (state: string) => {
  const metrics = await (await fetch(`http://127.0.0.1:${fixture.broker.metricsPort}/metrics`)).text();
  const line = `space_objectstore_places{resource="objects",state="${state}"}`;
  return Number(
    metrics
      .split('\n')
      .find((one) => one.startsWith(line))
      ?.split(' ')[1],
  );
};

it('four Capsules with 64 slow readers each leave slots for a fifth, for custody and for health checks', async () => {
  for (let n = 0; n < CAPSULES; n += 1) {
    const owner = await newAssistant(fixture.broker, { quota: 256 * MIB });
    expect((await owner.put('wide', Buffer.alloc(32 * MIB))).status).toBe(200);
    greedy.push({ owner, readers: [] });
  }
  const neighbour = await newAssistant(fixture.broker, { capsule: 'neighbour' });
  expect((await neighbour.put('own', 'mine')).status).toBe(200);
  for (const one of greedy) {
    const readers = await Promise.all(Array.from({ length: READERS }, () => slowReader(one.owner.token)));
    Object.assign(one, { readers });
  }
  await eventually(async () => (await places('held')) > 150, { what: 'the readers to hold what they get' });
  for (let n = 0; n < 8; n += 1) {
    expect((await neighbour.get('own')).text).toBe('mine');
    expect((await neighbour.put(`new-${n}`, 'x')).status).toBe(200);
    expect((await neighbour.call('GET', '/v1/objects/data')).status).toBe(200);
  }
  expect((await fetch(`${fixture.broker.dataUrl}/healthz`)).status).toBe(200);
  const owner = await fixture.broker.capsule('keeper');
  const listed = await owner.post('/v1/capsules/credentials/list', { capsule_id: 'keeper' });
  expect(listed.status).toBe(200);
  expect((await neighbour.call('DELETE', '/v1/objects/data/own')).status).toBe(200);
  expect(await places('held')).toBeLessThan(CONNECTIONS);
});

it('a download uses the turns of its Capsule', async () => {
  const one = await newAssistant(fixture.broker);
  await one.put('large', Buffer.alloc(4 * MIB));
  const turns = vi.spyOn(Turns.prototype, 'run');
  expect((await one.get('large')).text.length).toBe(4 * MIB);
  const keys = new Set(turns.mock.calls.map(([key]) => key));
  const places = (await fixture.registry<{ place: string }>('SELECT place FROM broker.store')).map(
    ({ place }) => place,
  );
  expect(turns.mock.calls.length).toBeGreaterThan(8);
  for (const key of keys) expect(places).toContain(key);
  turns.mockRestore();
});

it('a Capsule that has used its share is told to retry, as is a request that waited for too long', async () => {
  const [first] = greedy;
  if (first === undefined) throw new Error('no Capsule');
  // A machine with much to do may serve the first before it sends the last.
  const refused = await eventually(
    async () => {
      const many = Array.from({ length: 96 }, () => first.owner.get('wide', { range: 'bytes=0-0' }));
      const some = (await Promise.all(many)).filter(({ status }) => status !== 206);
      return some.length > 0 && some;
    },
    { what: 'requests beyond the share' },
  );
  for (const { status, headers, json } of refused) {
    expect(Number(headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
    expect([`429 rate_limited`, `503 unavailable`]).toContain(`${status} ${json.error.code}`);
  }
});
