/** `npm run kind-lab -- up|down|run COMMAND…`: see lab.ts. */
import { createSteps } from '../../progress/index.ts';
import { down, runThere, up } from './lab.ts';

const steps = createSteps();
const [act, ...rest] = process.argv.slice(2);
try {
  if (act === 'up') {
    await up(steps);
    console.log('npm run kind-lab -- run npm run up -- --provider kind');
  } else if (act === 'down') await down(steps);
  else if (act === 'run' && rest.length > 0) process.exitCode = await runThere(rest);
  else {
    console.error('usage: npm run kind-lab -- up|down|run COMMAND…');
    process.exitCode = 2;
  }
} catch (error) {
  if (act === 'run') console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1; // else the step that failed has told why
} finally {
  steps.close();
}
