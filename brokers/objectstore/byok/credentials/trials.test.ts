import { createServer } from 'node:net';
import { portOf, type VerificationCheck } from '@space/broker-kit';
import type { Fields } from '@space/contracts/objectstore';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../../../testing/eventually.ts';
import { type Fixture, openFixture } from '../../testing/fixture.ts';
import { credentialsOf, type OwnStore, startOwnStore } from './testing/byok.ts';
import { createTrials, MOST_TRIALS } from './trials.ts';

const PLENTY = { perSecond: 1_000_000, burst: 1_000_000 };
const FIELDS = {} as Fields;

/** Trials that last until the test sets their result. */
function held() {
  const running: ((check: VerificationCheck | undefined) => void)[] = [];
  const trial = createTrials(() => new Promise((resolve) => void running.push(resolve)), PLENTY);
  const settled = () => new Promise((resolve) => setImmediate(resolve));
  return { running, trial, settled };
}

describe('verifications of candidates', () => {
  it('are at most two of one Capsule at once, in order, and those of others do not wait for them', async () => {
    const { running, trial, settled } = held();
    const mine = [1, 2, 3].map(() => trial('mine', FIELDS));
    await settled();
    expect(running).toHaveLength(2);
    const other = trial('other', FIELDS);
    await settled();
    expect(running).toHaveLength(3);
    running[2]?.('auth');
    expect(await other).toBe('auth');
    running[0]?.(undefined);
    expect(await mine[0]).toBeUndefined();
    await settled();
    running[1]?.('tls');
    running[3]?.('bucket');
    expect(await Promise.all(mine)).toEqual([undefined, 'tls', 'bucket']);
  });

  it('are at most sixteen at once in all, and further ones are refused until one ends', async () => {
    const { running, trial, settled } = held();
    const all = Array.from({ length: MOST_TRIALS }, (_, i) => trial(`capsule-${i}`, FIELDS));
    await settled();
    expect(running).toHaveLength(16);
    await expect(trial('late', FIELDS)).rejects.toMatchObject({ code: 'rate_limited', retryAfter: 5 });
    for (let i = 0; i < MOST_TRIALS; i += 1) {
      running[i]?.('auth');
      await settled();
    }
    expect(await Promise.all(all)).toEqual(Array(MOST_TRIALS).fill('auth'));
    const late = trial('late', FIELDS);
    await settled();
    running.at(-1)?.(undefined);
    expect(await late).toBeUndefined();
  });

  it('return their slot when they fail', async () => {
    const trial = createTrials(() => Promise.reject(new Error('x')), PLENTY);
    for (let i = 0; i < 2 * MOST_TRIALS; i += 1) await expect(trial('a', FIELDS)).rejects.toThrow('x');
  });
});

describe('with endpoints that accept and stay silent', () => {
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

  it('everything except verifications continues', async () => {
    const sockets = new Set<{ destroy(): void }>();
    const mute = createServer((socket) => void sockets.add(socket.resume().on('error', () => undefined)));
    await new Promise<void>((resolve) => mute.listen(0, '127.0.0.1', resolve));
    const endpoint = `https://s3.tenant.example:${portOf(mute)}`;
    const fields = store.fields({ bucket: 'tenant', endpoint });
    const capsules = await Promise.all(
      Array.from({ length: 20 }, async (_, i) =>
        credentialsOf(await fixture.broker.capsule(`slow-${i}`), `slow-${i}`),
      ),
    );
    const quick = credentialsOf(await fixture.broker.capsule('quick'), 'quick');

    let tried = 0;
    let turnedAway = 0;
    const slow = capsules.flatMap((own) =>
      Array.from({ length: 10 }, async () => {
        let reply = await own.create('one', fields, 0);
        // So many at once find no slot in the custody on a busy machine, and are told to retry.
        while (reply.status === 503) reply = await own.create('one', fields, 0);
        if (reply.status === 422) tried += 1;
        if (reply.status === 429) turnedAway += 1;
        return reply;
      }),
    );
    await eventually(() => sockets.size >= 16, { what: 'the trials to begin' });
    await eventually(() => turnedAway > 0, { what: 'the queue to be full' });
    // For the same reason it may have to ask more than once; its requests are none of that queue.
    await eventually(async () => (await quick.list()).status === 200, {
      what: 'another Capsule is answered',
    });
    // Of two hundred, each of which lasts for a minute, sixteen at once: were it one of their queue, most would be over by now.
    expect(tried).toBeLessThan(100);
    mute.close();
    for (const socket of sockets) socket.destroy();
    const codes = new Set((await Promise.all(slow)).map(({ json }) => json.error.code));
    expect([...codes].sort()).toEqual(['rate_limited', 'verification_failed']);
  });
});
