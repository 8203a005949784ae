import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** They keep a core busy for minutes, one after the other: they run beside the suites, which mostly wait. */
const BUSY = 'brokers/db/operations/*.test.ts';

/** The suite about what all the others brought about is the last. */
class RightsLast extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const isLast = ({ moduleId }: TestSpecification) => moduleId.endsWith('e2e/suites/rights.test.ts');
    const sorted = await super.sort(files);
    return [...sorted.filter((file) => !isLast(file)), ...sorted.filter(isLast)];
  }
}

/** `npm test` runs all projects, `unit` first; `e2e` brings up a cluster for its suites. */
export default defineConfig({
  test: {
    // Half as many again as cores: at any time some tests wait for a server or a clock.
    sequence: { sequencer: RightsLast },
    maxWorkers: Math.ceil(availableParallelism() * 1.5),
    projects: [
      {
        test: {
          name: 'unit',
          include: ['{manifests,operator,brokers,console,e2e,bench,scripts}/**/*.test.ts'],
          exclude: ['**/node_modules/**', 'e2e/suites/**', BUSY],
          testTimeout: 300_000,
          hookTimeout: 300_000,
        },
      },
      {
        test: {
          name: 'beside',
          include: [BUSY],
          testTimeout: 300_000,
          hookTimeout: 300_000,
          fileParallelism: false,
        },
      },
      {
        test: {
          name: 'e2e',
          include: ['e2e/suites/**/*.test.ts'],
          globalSetup: 'e2e/suites/setup.ts',
          // A Space is brought up in a hook, on a machine that may have twenty things to do for each of its processors.
          testTimeout: 900_000,
          hookTimeout: 900_000,
          fileParallelism: false,
        },
      },
    ],
  },
});
