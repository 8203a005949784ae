/** Before the first integration test, builds the programs of its servers into the cache of cluster programs. */
import { mkdir } from 'node:fs/promises';
import { resolve } from 'node:path';
import { built } from '../e2e/cluster/tools.ts';
import { createSteps } from '../e2e/progress/index.ts';

const LOGS = resolve(import.meta.dirname, '../.space/test');

export async function setup(): Promise<void> {
  const steps = createSteps();
  try {
    await mkdir(LOGS, { recursive: true });
    await steps.run('programs of servers, built once', async (step) => {
      for (const component of ['kubernetes', 'versitygw']) {
        const log = `${LOGS}/build-${component}.log`;
        step.explain(log);
        await built(component, log);
      }
    });
  } finally {
    steps.close();
  }
}
