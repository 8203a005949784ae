import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Assistant, newAssistant } from '../testing/assistant.ts';
import { type Fixture, openFixture } from '../testing/fixture.ts';
import { callRaw, type RawCaller } from '../testing/raw.ts';

/** Documents that come in slowly, of so many Capsules that they have all slots for documents. */

const CAPSULES = 16;
const DOCUMENTS = 2;
/** Of a second; a document of that size would take minutes. */
const BYTES = 10;

let fixture: Fixture;
const callers: RawCaller[] = [];
const pacers: NodeJS.Timeout[] = [];
beforeAll(async () => {
  fixture = await openFixture({
    environment: { OBJECT_QUEUE_SECONDS: '30', CONNECTIONS_PER_ADDRESS: '1000' },
    pace: { tickMs: 100, pressedWindowMs: 2_000, pressedLeastBytes: 64 * 1024 },
  });
});
afterAll(async () => {
  for (const pacer of pacers) clearInterval(pacer);
  for (const { socket } of callers) socket.destroy();
  await fixture?.close();
});

async function slowDocument({ token }: Assistant): Promise<RawCaller> {
  const caller = await callRaw(fixture.broker.dataUrl);
  callers.push(caller);
  caller.send(
    `POST /v1/deletions/data HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${token}\r\ncontent-type: application/json\r\nexpect: 100-continue\r\ncontent-length: ${2 ** 20}\r\n\r\n`,
  );
  // It has its slot then.
  await caller.received((text) => text.includes('100 Continue'));
  pacers.push(setInterval(() => caller.send(' '.repeat(BYTES)), 1_000));
  return caller;
}

it('are ended while a Capsule with fewer waits, and no more of them than needed', async () => {
  for (let n = 0; n < CAPSULES; n += 1) {
    const greedy = await newAssistant(fixture.broker);
    for (let i = 0; i < DOCUMENTS; i += 1) await slowDocument(greedy);
  }
  const modest = await newAssistant(fixture.broker);
  const keys = Array.from({ length: 1_000 }, (_, i) => `none/${String(i).padStart(40, '0')}`);
  expect((await modest.post('/v1/deletions/data', { keys })).status).toBe(200);
  const ended = await Promise.all(callers.map(({ socket }) => socket.destroyed || socket.readableEnded));
  expect(ended.filter(Boolean).length).toBeLessThan(CAPSULES);
});
