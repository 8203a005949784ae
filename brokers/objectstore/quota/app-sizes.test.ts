import { randomUUID } from 'node:crypto';
import { createLogger } from '@space/broker-kit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../../testing/eventually.ts';
import { assistant } from '../testing/assistant.ts';
import { type Fixture, openFixture } from '../testing/fixture.ts';
import { createAppSizes } from './app-sizes.ts';

const KIB = 1024;
const ENTRY = 16 * KIB;

describe('the usage of an Assistant’s own files', () => {
  let fixture: Fixture;
  beforeAll(async () => {
    fixture = await openFixture();
  });
  afterAll(() => fixture?.close());

  it('is reported only to its Capsule, including the cost of objects and folders', async () => {
    const capsule = `c${randomUUID().slice(0, 8)}`;
    const owner = await fixture.broker.capsule(capsule);
    const one = assistant(fixture.broker.dataUrl, await fixture.broker.workload(owner, capsule, 'one'));
    await fixture.broker.workload(owner, capsule, 'other');
    expect((await one.put('folder/a', 'x'.repeat(100 * KIB))).status).toBe(200);
    expect((await one.put('b', 'x')).status).toBe(200);
    const shared = await one.call('PUT', '/v1/objects/shared/c', { body: 'x'.repeat(50 * KIB) });
    expect(shared.status).toBe(200);
    const asked = (who: typeof owner, app_id: string) =>
      who.post('/v1/capsules/apps/usage', { capsule_id: capsule, app_id });
    expect((await asked(owner, 'one')).json.used_bytes).toBe(100 * KIB + 1 + 3 * ENTRY);
    expect((await asked(owner, 'other')).json.used_bytes).toBe(0);
    const stranger = await fixture.broker.capsule(`c${randomUUID().slice(0, 8)}`);
    expect((await asked(stranger, 'one')).status).toBe(403);
    expect((await asked(fixture.broker.provisioner, 'one')).status).toBe(403);
    expect((await asked(owner, 'nothing')).status).toBe(404);
    await owner.drop(capsule, 'other');
    expect((await asked(owner, 'other')).status).toBe(404);
  });
});

describe('a listing', () => {
  const log = createLogger({ service: 'test', level: 'silent' });
  const KEY = 'c/x/a/y/key';

  /** Of so many pages of one object of a byte, each given when it is let go. */
  function store(pages: Readonly<Record<string, number>>) {
    const held: (() => void)[] = [];
    const state = { listed: [] as string[], holds: false, fails: false };
    const client = {
      async list({ prefix, token }: { prefix: string; token?: string | undefined }) {
        state.listed.push(prefix);
        if (state.holds) await new Promise<void>((resolve) => held.push(resolve));
        if (state.fails) throw new Error('the store is away');
        const page = Number(token ?? 1);
        const objects = [{ key: KEY, size: 1 }];
        return page < (pages[prefix] ?? 1) ? { objects, next: String(page + 1) } : { objects };
      },
    };
    const letGo = () => {
      for (const one of held.splice(0)) one();
    };
    return { client: client as never, state, letGo };
  }

  it('is begun once, is used for five minutes, and is then repeated', async () => {
    let now = 0;
    const { client, state } = store({});
    const sizes = createAppSizes({ client, entryBytes: 0, log, now: () => now });
    expect(await sizes('p')).toBe(1);
    now = 299_999;
    expect(await sizes('p')).toBe(1);
    expect(state.listed.length).toBe(1);
    now = 300_000;
    expect(await sizes('p')).toBe(1);
    expect(state.listed.length).toBe(2);
  });

  it('that takes longer than a turn continues without its caller', async () => {
    const { client } = store({ p: 25 });
    const sizes = createAppSizes({ client, entryBytes: 0, log });
    expect(await sizes('p')).toBeUndefined();
    expect(await eventually(() => sizes('p'), { what: 'the whole of it' })).toBe(25);
  });

  it('of millions of objects leaves turns for others', async () => {
    const { client, state, letGo } = store({ one: 1_000, two: 1_000 });
    const sizes = createAppSizes({ client, entryBytes: 0, log });
    state.holds = true;
    const large = [sizes('one'), sizes('two')];
    const small = sizes('small');
    const letting = setInterval(letGo, 0);
    try {
      expect(await small).toBe(1);
      expect(await Promise.all(large)).toEqual([undefined, undefined]);
      expect(state.listed.filter((prefix) => prefix !== 'small').length).toBeLessThan(100);
      state.holds = false;
      letGo();
      expect(await eventually(() => sizes('one'), { what: 'the whole of one' })).toBe(1_000);
      expect(await eventually(() => sizes('two'), { what: 'the whole of two' })).toBe(1_000);
    } finally {
      clearInterval(letting);
    }
  });

  it('that fails returns the previous result, and is repeated at the next request', async () => {
    let now = 0;
    const { client, state } = store({});
    const sizes = createAppSizes({ client, entryBytes: 0, log, now: () => now });
    state.fails = true;
    expect(await sizes('p')).toBeUndefined();
    state.fails = false;
    expect(await sizes('p')).toBe(1);
    now = 400_000;
    state.fails = true;
    expect(await sizes('p')).toBe(1);
  });
});
