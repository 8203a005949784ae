/**
 * `npm run kind-lab -- up|down|run COMMAND…`: a Docker engine in namespaces of its own, on a machine that has none, with a
 * node image that nothing is pulled for; `run` is where its clusters can be reached.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createSteps, type Step } from '../../progress/index.ts';
import { archiveOf, type Image } from '../images/archive.ts';
import { type ImageBuilder, imageBuilder } from '../images/builder.ts';
import { installPackages } from '../native/packages.ts';
import { missingPackages } from '../native/preflight.ts';
import { run } from '../run.ts';
import { built } from '../tools.ts';
import { environment, inNetwork, LAB, log, removeAll, start, stop, unpack } from './engine.ts';
import { labImages } from './node-image.ts';

const NODE_IMAGE = join(LAB, 'node-image');

async function up(): Promise<void> {
  const steps = createSteps();
  try {
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
    console.log('npm run kind-lab -- run npm run up -- --provider kind');
  } finally {
    steps.close();
  }
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

async function down(): Promise<void> {
  const steps = createSteps();
  try {
    await steps.run('end the lab', async (step) => {
      if (!existsSync(LAB)) return step.note('it is not up');
      await stop();
      return removeAll();
    });
  } finally {
    steps.close();
  }
}

async function runThere(argv: readonly string[]): Promise<void> {
  const [program, ...args] = await inNetwork(argv);
  const SPACE_NODE_IMAGE = await readFile(NODE_IMAGE, 'utf8');
  const env = { ...environment(), SPACE_NODE_IMAGE, SPACE_PROVIDER: 'kind' };
  const [code] = await once(spawn(program, args, { stdio: 'inherit', env }), 'close');
  process.exitCode = code ?? 1;
}

const [act, ...rest] = process.argv.slice(2);
try {
  if (act === 'up') await up();
  else if (act === 'down') await down();
  else if (act === 'run' && rest.length > 0) await runThere(rest);
  else {
    console.error('usage: npm run kind-lab -- up|down|run COMMAND…');
    process.exitCode = 2;
  }
} catch (error) {
  if (act === 'run') console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1; // else the step that failed has told why
}
