import { startOwnStore } from '../../brokers/objectstore/byok/credentials/testing/byok.ts';
import { killRotations } from '../../brokers/objectstore/byok/custody/testing/killed.ts';
import { openFixture } from '../../brokers/objectstore/testing/fixture.ts';
import type { SoakOptions, SoakReport } from './soak.ts';

/** Rotates a Capsule's key in a process that is killed at a random moment; fails if the result is neither the old nor the new state. */
export async function run({ quick }: SoakOptions): Promise<SoakReport> {
  const store = await startOwnStore();
  try {
    const fixture = await openFixture({ environment: store.environment });
    try {
      const tally = await killRotations(fixture, store, quick ? 10 : 100, Math.random);
      return {
        // A result that is neither old nor new throws.
        passed: true,
        title: 'Rotations whose broker was killed at a random moment',
        rows: [{ ...tally, 'neither old nor new': 0 }],
        figures: { rounds: tally.rounds, unanswered: tally.unanswered, moved: tally.moved },
      };
    } finally {
      await fixture.close();
    }
  } finally {
    await store.remove();
  }
}
