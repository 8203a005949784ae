/**
 * `npm run nightly [-- FILTER…]`: the suites on kind, from nothing to nothing: in the machine's own engine, or in the lab
 * where it has none that can. It fails, too, when the machine or the engine is not as it was. Without a filter the images for
 * both platforms go first, where this is root.
 */
import { createSteps } from '../../progress/index.ts';
import { engineServes } from '../kind/provider.ts';
import { environment } from './engine.ts';
import { down, isUp, runHere, runThere, up } from './lab.ts';
import { changes, engineTraces, machineTraces } from './traces.ts';

const SUITES = ['node_modules/vitest/vitest.mjs', 'run', '--project', 'e2e'];
const DOWN = ['e2e/suites/cluster.ts', 'down'];

/** In a mount namespace, with which go the mounts that buildah leaves behind. */
const PLATFORMS = ['unshare', '--mount', '--', process.execPath, 'node_modules/vitest/vitest.mjs'];

async function platforms(): Promise<readonly string[]> {
  const code = await runHere([...PLATFORMS, 'run', '--project', 'nightly'], process.env);
  return code === 0 ? [] : [`the images for both platforms failed (${code})`];
}

/** Answers what is wrong in the end. */
async function suites(inLab: boolean, filters: readonly string[]): Promise<readonly string[]> {
  const env = inLab ? environment() : process.env;
  const before = await engineTraces(env);
  const node = (argv: readonly string[]) => {
    const command = [process.execPath, ...argv];
    return inLab ? runThere(command) : runHere(command, { ...env, SPACE_PROVIDER: 'kind' });
  };
  const code = await node([...SUITES, ...filters]);
  const ended = await node(DOWN); // vitest takes nothing down when it is interrupted or killed
  return [
    ...(code === 0 ? [] : [`the suites failed (${code})`]),
    ...(ended === 0 ? [] : [`their cluster was not taken down (${ended})`]),
    ...changes(before, await engineTraces(env)),
  ];
}

process.on('SIGINT', () => undefined); // the suites get it, too, and what they began is taken down after them
const started = performance.now();
const steps = createSteps();
const wrong: string[] = [];
try {
  const before = machineTraces();
  const inLab = !(await engineServes());
  const wasUp = isUp();
  const filters = process.argv.slice(2);
  try {
    if (filters.length === 0 && process.getuid?.() === 0) wrong.push(...(await platforms()));
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
const minutes = ((performance.now() - started) / 60_000).toFixed(1);
console.log(
  [...wrong, `${minutes} minutes, ${wrong.length === 0 ? 'nothing left behind' : 'failed'}`].join('\n'),
);
process.exitCode = wrong.length === 0 ? 0 : 1;
