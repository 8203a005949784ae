import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';

/** `npm test` runs both projects, `unit` first; `e2e` needs the cluster that `scripts/test.ts` brings up. */
export default defineConfig({
  test: {
    // Twice the cores: at any time some tests wait for a server or a clock.
    maxWorkers: availableParallelism() * 2,
    projects: [
      {
        test: {
          name: 'unit',
          include: ['{manifests,operator,brokers,e2e,bench,scripts}/**/*.test.ts'],
          exclude: ['**/node_modules/**', 'e2e/suites/**'],
          testTimeout: 300_000,
          hookTimeout: 300_000,
        },
      },
      {
        test: {
          name: 'e2e',
          include: ['e2e/suites/**/*.test.ts'],
          globalSetup: 'e2e/suites/setup.ts',
          testTimeout: 300_000,
          hookTimeout: 300_000,
          fileParallelism: false,
        },
      },
    ],
  },
});
