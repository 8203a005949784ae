import { expect, it } from 'vitest';
import { seeded } from '../../../../testing/random.ts';
import { createModel } from './testing/model.ts';
import { MUTATIONS, mutate } from './testing/mutations.ts';

/** The bench `custody` does the same a hundred times longer. */

it('every mutation of stored rows is detected, and no normal change is mistaken for one', async () => {
  const seed = Date.now() % 2 ** 31;
  const random = seeded(seed);
  const model = createModel(['home', 'work', 'other']);
  const seen = new Map<string, number>();
  for (let round = 0; round < 60; round += 1) {
    model.remember();
    for (let i = 0; i < 25; i += 1) await model.step(random);
    for (let i = 0; i < 20; i += 1) {
      const { kind, capsule, raw } = mutate(model.store(), random);
      const verdict = model.judge(capsule, raw);
      expect(['damaged', 'rollback'], `${kind} of ${capsule}, seed ${seed}`).toContain(verdict);
      seen.set(kind, (seen.get(kind) ?? 0) + 1);
    }
    for (const capsule of model.capsules) expect(await model.openAll(capsule)).toBe(true);
  }
  expect([...seen.keys()].sort()).toEqual([...MUTATIONS].sort());
});
