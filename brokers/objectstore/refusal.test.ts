import { newToken } from '@space/broker-kit';
import { OBJECT_STORE } from '@space/contracts/objectstore';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { type Fixture, openFixture } from './testing/fixture.ts';

/** Counts the hashes that the broker takes. */
const hashes = vi.hoisted(() => ({ count: 0 }));
vi.mock('node:crypto', async (original) => {
  const crypto = await original<typeof import('node:crypto')>();
  return {
    ...crypto,
    hash: (...args: Parameters<typeof crypto.hash>) => {
      hashes.count += 1;
      return crypto.hash(...args);
    },
    createHash: (algorithm: string) => {
      hashes.count += 1;
      return crypto.createHash(algorithm);
    },
  };
});

/** The least of five: what the broker does meanwhile for itself takes hashes too, what it does for a caller it does each time. */
async function fewest(measure: () => Promise<number[]>): Promise<number[]> {
  const rounds = [];
  for (let round = 0; round < 5; round++) rounds.push(await measure());
  return rounds.reduce((least, round) => round.map((count, index) => Math.min(count, least[index] ?? count)));
}

let fixture: Fixture;
beforeAll(async () => {
  fixture = await openFixture();
});
afterAll(() => fixture.close());

describe('a refusal', () => {
  it('is the same bytes for every operation and whatever is wrong with the credential', async () => {
    const { broker } = fixture;
    const mine = await broker.capsule('mine');
    const foreign = await broker.capsule('theirs');
    const retired = await broker.capsule('gone');
    await retired.dropAll('gone');
    const workload = await broker.workload(mine, 'mine', 'app');
    const clients = [
      broker.as(undefined),
      broker.as('nonsense'),
      broker.as(newToken('osp').reveal()),
      broker.as(newToken('dbp').reveal()),
      broker.as(newToken('prv').reveal()),
      broker.as(workload),
      retired,
    ];
    const shapes = new Set<string>();
    for (const { path, authority } of Object.values(OBJECT_STORE.operations)) {
      const wrong = authority === 'capsule' ? [...clients, foreign, broker.provisioner] : [...clients, mine];
      for (const one of wrong) {
        for (const capsule_id of ['mine', 'unknown', 'gone']) {
          if (authority === 'capsule' && one === foreign && capsule_id === 'theirs') continue;
          const reply = await one.post(path, { capsule_id, app_id: 'app', set_id: null });
          const headers = [...reply.headers].filter(([key]) => key !== 'date');
          shapes.add(JSON.stringify([reply.status, headers, reply.text.replace(reply.json.trace_id, '')]));
        }
      }
    }
    expect([...shapes]).toHaveLength(1);
    expect([...shapes][0]).toContain('[403,');
  });

  it('comes before the body is read', async () => {
    const reply = await fixture.broker
      .as(undefined)
      .post('/v1/capsules/drop', '{not json', { 'content-type': 'text/plain' });
    expect(reply.status).toBe(403);
  });

  it('works with the same number of statements and hashes for every credential', async () => {
    const { broker } = fixture;
    const foreign = await broker.capsule('count-a');
    await broker.capsule('count-b');
    const retired = await broker.capsule('count-c');
    await retired.dropAll('count-c');
    const { lookup } = broker.context.connections;
    const { run } = lookup;
    const token = newToken('osw').reveal();
    const counts: number[] = [];
    for (const one of [
      broker.as(undefined),
      broker.as('nonsense'),
      broker.as(newToken('osp').reveal()),
      broker.as(newToken('prv').reveal()),
      retired,
      foreign,
    ]) {
      let statements = 0;
      Object.assign(lookup, {
        run: (...args: Parameters<typeof run>) => {
          statements += 1;
          return run(...args);
        },
      });
      const refused = async () => {
        statements = 0;
        const before = hashes.count;
        expect((await one.create('count-b', 'app', token)).status).toBe(403);
        return [statements, hashes.count - before];
      };
      counts.push(...(await fewest(refused)));
      Object.assign(lookup, { run });
    }
    expect(counts).toEqual(Array(12).fill(1));
  });
});
