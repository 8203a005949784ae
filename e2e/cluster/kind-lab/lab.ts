/** A Docker engine in namespaces of its own, on a machine without one, with a node image that needs no registry. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Step, Steps } from '../../progress/index.ts';
import { archiveOf, type Image } from '../images/archive.ts';
import { type ImageBuilder, imageBuilder } from '../images/builder.ts';
import { installPackages } from '../native/packages.ts';
import { missingPackages } from '../native/preflight.ts';
import { run } from '../run.ts';
import { built } from '../tools.ts';
import { environment, inNamespaces, inNetwork, LAB, log, removeAll, start, stop, unpack } from './engine.ts';
import { labImages } from './node-image.ts';
import type { Traces } from './traces.ts';

const NODE_IMAGE = join(LAB, 'node-image');

export async function up(steps: Steps): Promise<void> {
  await mkdir(join(LAB, 'log'), { recursive: true });
  await steps.run('Debian’s packages', async (step) => {
    step.explain(log('apt'));
    const missing = missingPackages();
    if (missing.length > 0) await installPackages(missing, log('apt'));
    await unpack();
  });
  const builder = imageBuilder(log('images'));
  const { node, bases } = await steps.run('node image', (step) => {
    step.explain(log('images'));
    return labImages(builder, (component) => built(component, log(`build-${component}`)));
  });
  await steps.run('Docker engine', (step) => {
    step.explain(log('engine'));
    return start();
  });
  await steps.run('load images', (step) => load([node, ...bases], builder, step));
  await writeFile(NODE_IMAGE, node.reference);
}

async function load(wanted: readonly Image[], { store }: ImageBuilder, step: Step): Promise<void> {
  const env = environment();
  const has = ({ reference }: Image) =>
    run(['docker', 'image', 'inspect', reference], { env }).then(
      () => true,
      () => false,
    );
  const missing: Image[] = [];
  for (const image of wanted) if (!(await has(image))) missing.push(image);
  const input = archiveOf(missing, store.blobPath);
  if (missing.length > 0) await run(['docker', 'load'], { input, env, log: log('load') });
  step.note(missing.length === 0 ? 'all there' : `${missing.length} brought in`);
}

export const isUp = (): boolean => existsSync(LAB);

export const down = (steps: Steps): Promise<void> =>
  steps.run('end the lab', async (step) => {
    if (!isUp()) step.note('it is not up'); // what an earlier one could not end yet goes all the same
    await stop();
    await removeAll();
  });

/** Runs a program where the lab's clusters can be reached and the provider is kind; returns its exit code. */
export async function runThere(argv: readonly string[]): Promise<number> {
  const SPACE_NODE_IMAGE = await readFile(NODE_IMAGE, 'utf8');
  return runHere(await inNetwork(argv), { ...environment(), SPACE_NODE_IMAGE, SPACE_PROVIDER: 'kind' });
}

/**
 * The traces in the lab's own namespaces. They end with these, so what a cluster leaves there can be seen only from
 * inside. Cgroups belong to the machine, where they are compared after the lab has ended: the engine creates its own
 * with its first container.
 */
export async function tracesInside(): Promise<Traces> {
  const look = await inNamespaces([process.execPath, join(import.meta.dirname, 'here.ts')]);
  const found = JSON.parse(await run(look)) as readonly string[];
  const inside = found.filter((trace) => !trace.startsWith('cgroup '));
  return new Set(inside.map((trace) => `in the lab, ${trace}`));
}

export async function runHere(
  [program = '', ...args]: readonly string[],
  env: NodeJS.ProcessEnv,
): Promise<number> {
  const [code] = await once(spawn(program, args, { stdio: 'inherit', env }), 'close');
  return code ?? 1;
}
