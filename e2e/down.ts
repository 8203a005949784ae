/** `npm run down`: ends what `npm run up` started. `--keep` leaves its state on disk for a faster next `up`. */
import { commandLine } from '../scripts/command-line.ts';
import { DEFAULT_CLUSTER, takeDown } from './cluster/index.ts';
import { createSteps } from './progress/index.ts';

const USAGE = `usage: npm run down -- [options]
  --cluster NAME   name of the cluster (space)
  --keep           keeps its state on disk, so that the next "npm run up" is faster`;

const { values } = commandLine(USAGE, {
  options: {
    cluster: { type: 'string', default: process.env['SPACE_CLUSTER'] ?? DEFAULT_CLUSTER },
    keep: { type: 'boolean', default: false },
  },
});

const steps = createSteps();
try {
  await takeDown(values.cluster, { keep: values.keep, steps });
} catch {
  process.exitCode = 1; // the failed step has reported the reason
} finally {
  steps.close();
}
