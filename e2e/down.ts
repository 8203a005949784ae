/** `npm run down`: ends what `npm run up` started. `--keep` leaves its state on disk for a faster next `up`. */
import { parseArgs } from 'node:util';
import { DEFAULT_CLUSTER, takeDown } from './cluster/index.ts';
import { createSteps } from './progress/index.ts';

const { values } = parseArgs({
  options: {
    cluster: { type: 'string', default: process.env['SPACE_CLUSTER'] ?? DEFAULT_CLUSTER },
    keep: { type: 'boolean', default: false },
  },
});

const steps = createSteps();
try {
  await takeDown(values.cluster, { keep: values.keep, steps });
} catch {
  process.exitCode = 1; // the failed step has told why
} finally {
  steps.close();
}
