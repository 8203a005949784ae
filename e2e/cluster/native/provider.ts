import { existsSync } from 'node:fs';
import { copyFile, mkdir, readdir, rm } from 'node:fs/promises';
import { basename, join } from 'node:path';
import type { Step } from '../../progress/index.ts';
import type { Image } from '../images/archive.ts';
import { type ImageBuilder, imageBuilder } from '../images/builder.ts';
import { locked } from '../lock.ts';
import type { BringUp, Cluster, ImageSource, TakeDown } from '../model.ts';
import { ClusterProblem } from '../problem.ts';
import { clusterDirectory, kubeconfigPath, removeRecord } from '../record.ts';
import { ageNote, recordOf, writeRecord } from './cluster-record.ts';
import { writeConfiguration } from './configuration.ts';
import { type OwnImages, ownImages } from './images.ts';
import { type Layout, layoutOf, nodeLayouts } from './layout.ts';
import { awaitRuntimes, furtherNode, importOnAll, startFurther, stopFurther } from './nodes.ts';
import { createOutside } from './outside.ts';
import { installPackages } from './packages.ts';
import { ensurePki } from './pki.ts';
import { gatherFacts, problemsOf } from './preflight.ts';
import { insideNode, runningNode, startNode, stopNode } from './process.ts';
import { buildPrograms, installPrograms, missingBuilds, type Programs, programsKey } from './programs.ts';
import { becomeReady } from './ready.ts';

const DEFAULT_API_PORT = 17_443;

export async function bringUp(options: BringUp): Promise<Cluster> {
  const { name, steps } = options;
  const layout = layoutOf(name);
  const checked = await steps.run('check this machine', () => preflight(options, layout));
  return steps.run('Kubernetes on this machine', (step) =>
    alone(layout, step, () => bringUpAlone(options, checked, step)),
  );
}

/** Only one command at a time brings this cluster up or takes it down. */
const alone = <T>(layout: Layout, step: Step, work: () => Promise<T>): Promise<T> =>
  locked(`${layout.state}.lock`, () => step.note('another command is at work on it'), work);

interface Checked {
  readonly apiPort: number;
  /** Missing Debian packages that can be installed. */
  readonly packages: readonly string[];
  readonly nodes: number;
}

/** Changes nothing. */
async function preflight({ name, apiPort: asked, nodes: wanted }: BringUp, layout: Layout): Promise<Checked> {
  const record = await recordOf(layout);
  const facts = gatherFacts({
    name,
    nodes: wanted ?? record?.nodes ?? 1,
    had: record?.nodes,
    stateRoot: layout.state,
    port: asked ?? record?.apiPort ?? DEFAULT_API_PORT,
    runningOn: runningNode(layout) && record?.apiPort,
    mustBuild: (await missingBuilds()).length > 0,
  });
  const [first, ...others] = problemsOf(facts).map(({ wrong, mend }) => `${wrong}\n${mend}`);
  if (first !== undefined) throw new ClusterProblem(first, others.join('\n'));
  return { apiPort: facts.port, packages: facts.missingPackages, nodes: facts.nodes };
}

async function bringUpAlone(
  options: BringUp,
  { apiPort, packages: missing, nodes }: Checked,
  step: Step,
): Promise<Cluster> {
  const { name } = options;
  const layouts = nodeLayouts(name, nodes);
  const [layout] = layouts;
  await mkdir(layout.log, { recursive: true });
  await removeDrafts(layouts);
  const abort = new AbortController();
  const builder = imageBuilder(join(layout.log, 'images.log'), (text) => step.note(text));
  try {
    const packages = missing.length === 0 ? Promise.resolve() : bringPackages(missing, layout, step);
    const programs = buildPrograms(step, { logs: layout.log, packages, signal: abort.signal });
    const own = ownImages(builder, packages, programs.built);
    const images = step.run('images', async (inner) => {
      inner.explain(join(layout.log, 'images.log'));
      await packages;
      return buildImages(builder, own, options.images ?? [], inner);
    });
    const needed = [ensurePkiAfter(packages, layout, name), programs.all(), own.pause, own.coredns];
    await Promise.race([Promise.all(needed), failureOf(images)]);
    const [pause, coredns] = await Promise.all([own.pause, own.coredns]);
    if (runningNode(layout) === undefined)
      await step.run('start the node', () => start({ name, layouts, apiPort, programs, pause }));
    else step.note(await ageNote(layout));
    if (nodes > 1)
      await step.run('further nodes', async (inner) => {
        await writeRecord(layout, { programs: '', ...(await recordOf(layout)), name, apiPort, nodes });
        inner.note((await startFurther(name, layouts, pause)).join(', ') || 'run already');
      });
    await Promise.all([
      step.run('node Ready', (inner) =>
        becomeReady({ layouts, apiPort, corednsImage: coredns.reference }, inner),
      ),
      step.run('load images', (inner) => loadAll(layouts, builder, [pause, coredns], images, inner)),
    ]);
    await mkdir(clusterDirectory(name), { recursive: true });
    await copyFile(layout.kubeconfig, kubeconfigPath(name));
    return { ...nativeCluster(name, layouts, builder), kubeconfig: kubeconfigPath(name) };
  } catch (error) {
    abort.abort();
    throw error;
  }
}

/** Removes the drafts of a killed command. No other command works on this cluster now. */
async function removeDrafts(nodes: readonly Layout[]): Promise<void> {
  for (const { state, pki, bin } of nodes.filter((node) => existsSync(node.state))) {
    const drafts = (await readdir(state)).filter((file) =>
      [pki, bin].some((whole) => file.startsWith(`${basename(whole)}.`)),
    );
    await Promise.all(drafts.map((file) => rm(join(state, file), { recursive: true })));
  }
}

/** A promise that never resolves, and rejects as soon as `work` does, for use in a race. */
const failureOf = (work: Promise<unknown>): Promise<never> =>
  new Promise((_, reject) => {
    work.catch(reject);
  });

async function bringPackages(missing: readonly string[], layout: Layout, step: Step): Promise<void> {
  await step.run(`apt install ${missing.join(' ')}`, async (inner) => {
    const log = join(layout.log, 'apt.log');
    inner.explain(log);
    await installPackages(missing, log);
  });
}

async function ensurePkiAfter(packages: Promise<void>, layout: Layout, name: string): Promise<void> {
  await packages;
  await ensurePki(layout.pki, name);
}

async function buildImages(
  builder: ImageBuilder,
  own: OwnImages,
  sources: readonly ImageSource[],
  step: Step,
): Promise<readonly Image[]> {
  const images: Image[] = [await own.pause];
  for (const source of sources) images.push(await step.run(source.name, () => builder.ensure(source)));
  images.push(await own.coredns, await own.versitygw);
  return images;
}

/** The images that cluster DNS needs come first. */
async function loadAll(
  nodes: readonly [Layout, ...Layout[]],
  builder: ImageBuilder,
  first: readonly Image[],
  all: Promise<readonly Image[]>,
  step: Step,
): Promise<void> {
  await awaitRuntimes(nodes, step);
  step.explain(join(nodes[0].log, 'import.log'));
  const count = (await importOnAll(nodes, builder, first)) + (await importOnAll(nodes, builder, await all));
  step.note(count === 0 ? 'all there' : `${count} brought in`);
}

interface Start {
  readonly name: string;
  readonly layouts: readonly [Layout, ...Layout[]];
  readonly apiPort: number;
  readonly programs: Programs;
  readonly pause: Image;
}

async function start({ name, layouts, apiPort, programs, pause }: Start): Promise<void> {
  const [layout] = layouts;
  await stopFurther(name); // they have links to the first one's namespace, and its programs
  await installPrograms(layout.bin, await programs.all());
  await writeConfiguration(layout, { name, apiPort, pauseImage: pause.reference });
  await writeRecord(layout, { name, apiPort, programs: await programsKey(), nodes: layouts.length });
  await startNode(name, layout, apiPort);
}

export async function open(name: string): Promise<Cluster | undefined> {
  const layout = layoutOf(name);
  const record = await recordOf(layout);
  if (record === undefined || runningNode(layout) === undefined) return undefined;
  return nativeCluster(
    name,
    nodeLayouts(name, record.nodes ?? 1),
    imageBuilder(join(layout.log, 'images.log')),
  );
}

function nativeCluster(
  name: string,
  layouts: readonly [Layout, ...Layout[]],
  builder: ImageBuilder,
): Cluster {
  const [layout, ...further] = layouts;
  return {
    name,
    provider: 'native',
    kubeconfig: layout.kubeconfig,
    tool: async (tool) => join(layout.bin, tool),
    loadImages: (sources, steps) =>
      steps.run('load images', async (step) => {
        step.explain(join(layout.log, 'images.log'));
        const images = new Map<string, Image>();
        for (const source of sources)
          images.set(source.name, await step.run(source.name, () => builder.ensure(source)));
        const count = await importOnAll(layouts, builder, [...images.values()]);
        step.note(count === 0 ? 'all there' : `${count} brought in`);
        return new Map([...images].map(([source, image]) => [source, image.reference]));
      }),
    node: {
      name,
      auditLogs: layout.log,
      command: (argv) => insideNode(layout, argv),
      outside: (options) => createOutside(layouts, options),
    },
    furtherNodes: further.map(furtherNode),
  };
}

/** True if anything of the cluster is on this machine, running or not. */
export const exists = (name: string): boolean => existsSync(layoutOf(name).state);

export async function takeDown(name: string, { keep = false, steps }: TakeDown): Promise<void> {
  const layout = layoutOf(name);
  await steps.run(`take ${name} down`, async (step) => {
    if (!existsSync(layout.state)) {
      step.note('it is not up');
      return;
    }
    if (process.getuid?.() !== 0)
      throw new ClusterProblem(`The cluster ${name} is root's.`, 'Run the command as root.');
    await alone(layout, step, async () => {
      await step.run('end the node', async (inner) => {
        if (runningNode(layout) === undefined) inner.note('it was not running');
        await stopFurther(name);
        await stopNode(layout);
      });
      await removeRecord(name);
      if (!keep) await step.run('remove its state', () => rm(layout.state, { recursive: true, force: true }));
    });
  });
}
