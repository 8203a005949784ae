import { availableParallelism, loadavg } from 'node:os';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
import { testFiles } from './scripts/imports/programs.ts';

/** A test that starts a program, itself or by what it imports, is an integration test; so nothing need say which it is. */
const { start, startNone } = testFiles(import.meta.dirname);
const SUITES = 'e2e/suites/';
/** What takes too long for `npm test`: `npm run nightly`. */
const NIGHTLY = ['e2e/nightly/platforms.test.ts', 'e2e/nightly/upgrade.test.ts'];
/** What needs a native cluster of three nodes: `npx vitest run --project nodes`. */
const NODES = 'e2e/nodes/';
const outsideSuites = (files: readonly string[]) =>
  files.filter((file) => ![SUITES, NODES, ...NIGHTLY].some((beginning) => file.startsWith(beginning)));

/**
 * What a minute of a quiet machine is on this one, which may have other things to do for each of its processors. A test
 * takes a second or so; any process may stand still for ten.
 */
const UNIT_MS = 60_000 * Math.max(1, (loadavg()[0] ?? 0) / availableParallelism());

/** The suite about what all the others brought about is the last. */
class RightsLast extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const isLast = ({ moduleId }: TestSpecification) => moduleId.endsWith(`${SUITES}rights.test.ts`);
    const sorted = await super.sort(files);
    return [...sorted.filter((file) => !isLast(file)), ...sorted.filter(isLast)];
  }
}

/** `npm test` runs all projects, in the order of what is quickest to know. */
export default defineConfig({
  test: {
    // Half as many again as cores: at any time some tests wait for a server or a clock.
    sequence: { sequencer: RightsLast },
    // Whoever leaves an `only` behind would run nothing else, and see it pass.
    allowOnly: false,
    maxWorkers: Math.ceil(availableParallelism() * 1.5),
    projects: [
      {
        test: {
          name: 'unit',
          include: outsideSuites(startNone),
          // They leave nothing behind, so files share a process and what it has loaded.
          isolate: false,
          testTimeout: UNIT_MS,
          hookTimeout: UNIT_MS,
        },
      },
      {
        test: {
          name: 'integration',
          include: outsideSuites(start),
          globalSetup: 'testing/setup.ts',
          // Several conditions, each of which has four minutes (`eventually`).
          testTimeout: 900_000,
          hookTimeout: 900_000,
        },
      },
      {
        test: {
          name: 'e2e',
          include: [`${SUITES}**/*.test.ts`],
          globalSetup: `${SUITES}setup.ts`,
          // A Space is brought up in a hook, on a machine that may have twenty things to do for each of its processors.
          testTimeout: 900_000,
          hookTimeout: 900_000,
          fileParallelism: false,
        },
      },
      {
        test: {
          name: 'nodes',
          include: [`${NODES}**/*.test.ts`],
          globalSetup: `${SUITES}setup.ts`,
          testTimeout: 900_000,
          hookTimeout: 900_000,
          fileParallelism: false,
        },
      },
      {
        test: {
          name: 'nightly',
          include: NIGHTLY,
          testTimeout: 900_000,
          hookTimeout: 900_000,
          fileParallelism: false,
        },
      },
    ],
  },
});
