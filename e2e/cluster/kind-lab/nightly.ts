/**
 * `npm run nightly [-- FILTER…]`: runs the suites on a new kind cluster, and removes it: in the machine's own engine,
 * or in the lab if that cannot run one. It also fails if the machine, the engine or the lab's namespaces differ
 * afterwards. Without a filter the project `nightly` runs first, if this is root; otherwise the last lines say that
 * it was left out.
 */
import { helpIfAsked } from '../../../scripts/command-line.ts';
import { createSteps } from '../../progress/index.ts';
import { engineServes } from '../kind/provider.ts';
import { environment } from './engine.ts';
import { down, isUp, runHere, runThere, tracesInside, up } from './lab.ts';
import { report } from './report.ts';
import { changes, engineTraces, machineTraces, type Traces } from './traces.ts';

const SUITES = ['node_modules/vitest/vitest.mjs', 'run', '--project', 'e2e'];
const NIGHTLY = 'the images for both platforms and the upgrade from 0.1.0';
const DOWN = ['e2e/suites/cluster.ts', 'down'];

async function nightlyProject(): Promise<readonly string[]> {
  const vitest = [process.execPath, 'node_modules/vitest/vitest.mjs'];
  const code = await runHere([...vitest, 'run', '--project', 'nightly'], process.env);
  return code === 0 ? [] : [`${NIGHTLY} failed (${code})`];
}

/** Returns what is wrong at the end. */
async function suites(inLab: boolean, filters: readonly string[]): Promise<readonly string[]> {
  const env = inLab ? environment() : process.env;
  const look = async (): Promise<Traces> => {
    const engine = await engineTraces(env);
    return inLab ? engine.union(await tracesInside()) : engine;
  };
  const before = await look();
  const node = (argv: readonly string[]) => {
    const command = [process.execPath, ...argv];
    return inLab ? runThere(command) : runHere(command, { ...env, SPACE_PROVIDER: 'kind' });
  };
  const code = await node([...SUITES, ...filters]);
  const ended = await node(DOWN); // vitest takes nothing down when it is interrupted or killed
  return [
    ...(code === 0 ? [] : [`the suites failed (${code})`]),
    ...(ended === 0 ? [] : [`their cluster was not taken down (${ended})`]),
    ...changes(before, await look()),
  ];
}

helpIfAsked(`usage: npm run nightly -- [FILTER…]
  FILTER   of the suites on kind, such as e2e/suites/files; anything else that vitest takes. Without one all suites run, and before
           them, as root, ${NIGHTLY}`);
process.on('SIGINT', () => undefined); // the suites get it, too, and what they began is taken down after them
const started = performance.now();
const steps = createSteps();
const wrong: string[] = [];
const leftOut: string[] = [];
try {
  const before = machineTraces();
  const inLab = !(await engineServes());
  const wasUp = isUp();
  const filters = process.argv.slice(2);
  try {
    if (filters.length > 0) leftOut.push(`${NIGHTLY}, since a filter names other tests`);
    else if (process.getuid?.() !== 0)
      leftOut.push(`${NIGHTLY}, since they need root, and this is not run as root`);
    else wrong.push(...(await nightlyProject()));
    if (inLab) await up(steps);
    wrong.push(...(await suites(inLab, filters)));
  } finally {
    if (inLab && !wasUp) await down(steps);
  }
  if (!inLab || !wasUp) wrong.push(...changes(before, machineTraces()));
} catch (error) {
  wrong.push(error instanceof Error ? error.message : String(error));
} finally {
  steps.close();
}
const minutes = (performance.now() - started) / 60_000;
console.log(report({ wrong, leftOut, minutes }, process.env['GITHUB_ACTIONS'] === 'true'));
process.exitCode = wrong.length === 0 ? 0 : 1;
