import { createModel } from '../../brokers/objectstore/byok/custody/testing/model.ts';
import { MUTATIONS, mutate } from '../../brokers/objectstore/byok/custody/testing/mutations.ts';
import { seeded } from '../random.ts';
import type { SoakOptions, SoakReport } from './soak.ts';

/** Damages rows of the custody at random: all damage must be detected, and nothing else reported as damage. */
export async function run({ quick }: SoakOptions): Promise<SoakReport> {
  const wanted = quick ? { changes: 2_000, mutations: 2_000 } : { changes: 100_000, mutations: 20_000 };
  const seed = Date.now() % 2 ** 31;
  const random = seeded(seed);
  const model = createModel(['home', 'work', 'school', 'club']);
  const missed = new Map<string, number>();
  const tried = new Map<string, number>();
  const rounds = 200;
  let [changes, mutations, opened, falseAlarms] = [0, 0, 0, 0];
  for (let round = 0; round < rounds; round += 1) {
    model.remember();
    for (; changes < (wanted.changes * (round + 1)) / rounds; changes += 1) {
      // A step throws if the broker reports what it reads as damaged.
      await model.step(random).catch(() => {
        falseAlarms += 1;
      });
    }
    for (; mutations < (wanted.mutations * (round + 1)) / rounds; mutations += 1) {
      const { kind, capsule, raw } = mutate(model.store(), random);
      const verdict = model.judge(capsule, raw);
      tried.set(kind, (tried.get(kind) ?? 0) + 1);
      if (verdict !== 'damaged' && verdict !== 'rollback') missed.set(kind, (missed.get(kind) ?? 0) + 1);
    }
    for (const capsule of model.capsules) {
      if (await model.openAll(capsule)) opened += 1;
      else falseAlarms += 1;
    }
    if ((round + 1) % 20 === 0) console.error(`${changes} changes, ${mutations} mutations`);
  }
  const all = [...missed.values()].reduce((sum, count) => sum + count, 0);
  return {
    passed: all === 0 && falseAlarms === 0,
    title: 'Custody: random mutations of stored rows, and normal changes',
    rows: MUTATIONS.map((kind) => ({
      mutation: kind,
      tried: tried.get(kind) ?? 0,
      missed: missed.get(kind) ?? 0,
    })),
    figures: { mutations, missed: all, changes, false_alarms: falseAlarms, inventories_opened: opened, seed },
    notes: [`${changes} changes and ${opened} readings of whole inventories: ${falseAlarms} false alarms`],
  };
}
