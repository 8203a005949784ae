/** A node whose clock is off by an hour: what is refused, with which message, and that nothing is lost. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../testing/eventually.ts';
import { credentialsOf, type OwnStore, startOwnStore } from './byok/credentials/testing/byok.ts';
import { assistant, newAssistant } from './testing/assistant.ts';
import { client } from './testing/broker.ts';
import { type Fixture, openFixture } from './testing/fixture.ts';
import { spawnBroker } from './testing/process.ts';

const HOUR_MS = 3_600_000;
let fixture: Fixture;
let store: OwnStore;
beforeAll(async () => {
  store = await startOwnStore();
  fixture = await openFixture({ environment: store.environment });
});
afterAll(async () => {
  await fixture?.close();
  await store?.remove();
});

/** Loaded before the broker: its wall clock is this much off from the start, or from each other SIGUSR2 to the next. */
function clockOff(ms: number, from: 'start' | 'signal'): string {
  const program = `const Real = Date;
    let off = ${from === 'start' ? ms : 0};
    process.on('SIGUSR2', () => { off = off === 0 ? ${ms} : 0; });
    globalThis.Date = class extends Real {
      constructor(...given) { given.length === 0 ? super(Real.now() + off) : super(...given); }
      static now() { return Real.now() + off; }
    };`;
  return `--import=data:text/javascript,${encodeURIComponent(program)}`;
}

const spawnOff = (ms: number, from: 'start' | 'signal') =>
  spawnBroker({ ...fixture.mounts.environment, ...store.environment, NODE_OPTIONS: clockOff(ms, from) });

describe.each([
  ['ahead', HOUR_MS],
  ['behind', -HOUR_MS],
])('a broker whose clock is an hour %s', (_, ms) => {
  it('does not start, and says which clock to set', async () => {
    await expect(spawnOff(ms, 'start')).rejects.toThrow(
      "the bucket \"space\" cannot be the Space's: its server's clock and this pod's are more than 15 minutes apart",
    );
  });

  it('answers that the store failed, and serves the existing objects once the clock is right', async () => {
    const before = await newAssistant(fixture.broker);
    expect((await before.put('kept', 'text')).status).toBe(200);
    const broker = await spawnOff(ms, 'signal');
    try {
      const one = assistant(broker.dataUrl, before.token);
      const get = async (key: string) => (await one.get(key)).status;
      expect(await get('kept')).toBe(200);
      process.kill(broker.pid, 'SIGUSR2');
      await eventually(async () => (await get('kept')) === 502, { what: 'a refusal of the store' });
      expect((await one.put('new', 'text')).json.error).toEqual({ code: 'upstream_failed' });
      process.kill(broker.pid, 'SIGUSR2');
      await eventually(async () => (await get('kept')) === 200, { what: 'the clock is right' });
      expect(await get('new')).toBe(404);
    } finally {
      await broker.kill();
    }
  });

  it('makes a change of credential sets completely or not at all, and raises no alarm of a rollback', async () => {
    const capsule = `clock-${ms < 0 ? 'behind' : 'ahead'}`;
    const token = (await fixture.broker.capsule(capsule)).token ?? '';
    const right = credentialsOf(client(fixture.broker.url, token), capsule);
    const { set_id: id } = (await right.create('own', store.fields(), 0)).json;
    const broker = await spawnOff(ms, 'signal');
    try {
      const off = credentialsOf(client(broker.url, token), capsule);
      const { inventory_generation: generation } = (await off.list()).json;
      process.kill(broker.pid, 'SIGUSR2');
      await eventually(async () => (await off.list()).status === 503, { what: 'no anchor is read' });
      expect((await off.select(id, generation)).json.error).toEqual({ code: 'custody_unavailable' });
      const { status, json } = await right.list();
      expect([status, [null, id].includes(json.selected)]).toEqual([200, true]);
      process.kill(broker.pid, 'SIGUSR2');
      await eventually(async () => (await off.list()).status === 200, { what: 'the clock is right' });
      expect((await off.list()).json.selected).toBe(json.selected);
      expect((await off.select(id, json.inventory_generation)).status).toBe(200);
    } finally {
      await broker.kill();
    }
  });
});
