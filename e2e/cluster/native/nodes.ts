import { existsSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Step } from '../../progress/index.ts';
import type { Image } from '../images/archive.ts';
import type { ImageBuilder } from '../images/builder.ts';
import type { FurtherNode } from '../model.ts';
import { run } from '../run.ts';
import { HANDLER, writeNodeConfiguration } from './configuration.ts';
import { containerdAnswers, importImages } from './images.ts';
import { type Layout, MAX_NODES, nodeLayouts } from './layout.ts';
import { linkNode, routeNodes } from './network.ts';
import { ensureNodePki } from './pki.ts';
import { insideNode, runningNode, startNode, stopNode } from './process.ts';
import { waitFor } from './ready.ts';

/** Starts the further nodes that do not run, and connects all nodes. Returns the names of those that it started. */
export async function startFurther(
  name: string,
  [first, ...further]: readonly [Layout, ...Layout[]],
  pause: Image,
): Promise<readonly string[]> {
  const started: string[] = [];
  for (const node of further) {
    if (runningNode(node) === undefined) {
      await mkdir(node.log, { recursive: true });
      await ensureNodePki(first.pki, node);
      await writeNodeConfiguration(node, { name, pauseImage: pause.reference });
      await startNode(name, node);
      started.push(node.node);
    }
    await linkNode(first, node);
  }
  if (further.length > 0) await routeNodes([first, ...further]);
  return started;
}

/** Ends every further node that has left anything, whatever number the record says. */
export async function stopFurther(name: string): Promise<void> {
  const [, ...further] = nodeLayouts(name, MAX_NODES);
  for (const node of further) if (existsSync(node.state)) await stopNode(node);
}

export const furtherNode = (node: Layout): FurtherNode => ({
  name: node.node,
  command: (argv) => insideNode(node, argv),
  end: () => stopNode(node),
  removeHandler: () => removeHandler(node),
});

async function removeHandler(node: Layout): Promise<void> {
  const file = join(node.etc, 'containerd.toml');
  const [others] = (await readFile(file, 'utf8')).split(HANDLER);
  await writeFile(file, others ?? '');
  await run(insideNode(node, [process.execPath, '-e', END_RUNTIME, node.componentStatus]));
}

/** Ends the runtime; the supervisor starts it again with its changed file. */
const END_RUNTIME = `
  const components = JSON.parse(require('node:fs').readFileSync(process.argv[1], 'utf8'));
  process.kill(components.containerd.pid);`;

/** Imports the images that each node lacks; returns their number. */
export async function importOnAll(
  nodes: readonly Layout[],
  { store }: ImageBuilder,
  images: readonly Image[],
): Promise<number> {
  const counts = await Promise.all(
    nodes.map((node) => importImages(node, store, images, join(node.log, 'import.log'))),
  );
  return counts.reduce((sum, count) => sum + count, 0);
}

export async function awaitRuntimes(nodes: readonly Layout[], step: Step): Promise<void> {
  for (const node of nodes) await waitFor(node, step, 'containerd', () => containerdAnswers(node));
}
