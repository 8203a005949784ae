import { copyFile, mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Step } from '../../progress/index.ts';
import { readJson, replaceFile } from '../files.ts';
import type { Image } from '../images/archive.ts';
import { type ImageBuilder, imageBuilder } from '../images/builder.ts';
import { locked } from '../lock.ts';
import type { BringUp, Cluster, ImageSource, TakeDown } from '../model.ts';
import { ClusterProblem } from '../problem.ts';
import { clusterDirectory, kubeconfigPath, removeRecord } from '../record.ts';
import { run } from '../run.ts';
import { callApi } from './api.ts';
import { writeConfiguration } from './configuration.ts';
import { containerdAnswers, importImages, ownImages } from './images.ts';
import { type Layout, layoutOf } from './layout.ts';
import { baseObjects } from './objects.ts';
import { createOutside } from './outside.ts';
import { installPackages } from './packages.ts';
import { ensurePki } from './pki.ts';
import { gatherFacts, problemsOf } from './preflight.ts';
import { insideNode, runningNode, startNode, stopNode } from './process.ts';
import { buildPrograms, installPrograms, missingBuilds, type Programs, programsKey } from './programs.ts';
import type { ComponentStatus } from './supervisor.ts';

const API_PORT = 17_443;

/** What a cluster remembers of itself from one command to the next. */
interface Record {
  readonly name: string;
  readonly apiPort: number;
  readonly programs: string;
}

export async function bringUp(options: BringUp): Promise<Cluster> {
  const layout = layoutOf(options.name);
  const record = await readJson<Record>(layout.record);
  const apiPort = options.apiPort ?? record?.apiPort ?? API_PORT;
  await options.steps.run('check this machine', (step) => preflight(step, layout, apiPort));
  return locked(
    `${layout.state}.lock`,
    () => {},
    () =>
      options.steps.run('Kubernetes on this machine', (step) =>
        bringUpLocked(options, layout, apiPort, step),
      ),
  );
}

async function preflight(step: Step, layout: Layout, port: number): Promise<void> {
  const running = runningNode(layout) !== undefined;
  const mustBuild = (await missingBuilds()).length > 0;
  const facts = gatherFacts({ stateRoot: layout.state, port, ownPort: running, mustBuild });
  const problems = problemsOf(facts);
  if (problems.length > 0) {
    const [first, ...others] = problems.map(({ wrong, mend }) => `${wrong}\n${mend}`);
    throw new ClusterProblem(first ?? '', others.join('\n'));
  }
  if (facts.missingPackages.length === 0) return;
  await mkdir(layout.log, { recursive: true });
  const log = join(layout.log, 'apt.log');
  step.explain(log);
  await step.run(`apt install ${facts.missingPackages.join(' ')}`, () =>
    installPackages(facts.missingPackages, log),
  );
}

async function bringUpLocked(
  options: BringUp,
  layout: Layout,
  apiPort: number,
  step: Step,
): Promise<Cluster> {
  const { name } = options;
  await mkdir(layout.log, { recursive: true });
  const abort = new AbortController();
  const builder = imageBuilder(join(layout.log, 'images.log'), (text) => step.note(text));
  const cluster = nativeCluster(name, layout, apiPort, builder);
  try {
    const programs = buildPrograms(step, layout.log, abort.signal);
    const own = ownImages(builder, (component) => programs.built(component));
    const images = step.run('images', async (inner) => {
      inner.explain(join(layout.log, 'images.log'));
      return buildImages(builder, own, options.images ?? [], inner);
    });
    images.catch(() => undefined);
    await ensurePki(layout.pki, name);
    await programs.all();
    const [pause, coredns] = await Promise.all([own.pause, own.coredns]);
    if (runningNode(layout) === undefined)
      await step.run('start the node', () => start({ name, layout, apiPort, programs, pause }));
    else step.note(await ageNote(layout));
    await Promise.all([
      step.run('node Ready', (inner) => becomeReady(name, layout, apiPort, coredns, inner)),
      step.run('load images', async (inner) => {
        await waitFor(() => containerdAnswers(layout), layout, inner, 'containerd');
        const count = await importImages(
          layout,
          builder.store,
          [pause, coredns],
          join(layout.log, 'import.log'),
        );
        const more = await importImages(layout, builder.store, await images, join(layout.log, 'import.log'));
        inner.note(count + more === 0 ? 'all there' : `${count + more} images`);
      }),
    ]);
    await mkdir(clusterDirectory(name), { recursive: true });
    await copyFile(layout.kubeconfig, kubeconfigPath(name));
    return cluster;
  } catch (error) {
    abort.abort();
    throw error;
  }
}

async function buildImages(
  builder: ImageBuilder,
  own: ReturnType<typeof ownImages>,
  sources: readonly ImageSource[],
  step: Step,
): Promise<readonly Image[]> {
  const images: Image[] = [await own.pause];
  for (const source of sources) images.push(await step.run(source.name, () => builder.ensure(source)));
  images.push(await own.coredns, await own.versitygw);
  return images;
}

interface Start {
  readonly name: string;
  readonly layout: Layout;
  readonly apiPort: number;
  readonly programs: Programs;
  readonly pause: Image;
}

async function start({ name, layout, apiPort, programs, pause }: Start): Promise<void> {
  await installPrograms(layout.bin, await programs.all());
  await writeConfiguration(layout, { name, apiPort, pauseImage: pause.reference });
  const record: Record = { name, apiPort, programs: await programsKey() };
  await replaceFile(layout.record, JSON.stringify(record));
  await startNode(name, layout, apiPort);
}

async function ageNote(layout: Layout): Promise<string> {
  const record = await readJson<Record>(layout.record);
  return record?.programs === (await programsKey())
    ? 'runs already'
    : 'runs already, in other versions than this checkout has (npm run down, then up, renews it)';
}

async function becomeReady(
  name: string,
  layout: Layout,
  port: number,
  coredns: Image,
  step: Step,
): Promise<void> {
  const api = { port, pki: layout.pki };
  const kubectl = (input: string | undefined, ...args: readonly string[]) =>
    run([join(layout.bin, 'kubectl'), `--kubeconfig=${layout.kubeconfig}`, ...args], {
      ...(input === undefined ? {} : { input }),
      log: join(layout.log, 'apply.log'),
    });
  await waitFor(() => succeeds(callApi(api, '/readyz')), layout, step, 'kube-apiserver');
  const apply = ['apply', '--server-side', '--force-conflicts', '--filename'];
  const crds = join(layout.bin, 'crds');
  if (!(await succeeds(callApi(api, '/apis/crd.projectcalico.org/v1/felixconfigurations'))))
    await kubectl(undefined, ...apply, crds);
  const objects = await baseObjects(name, layout, coredns.reference);
  // A new kind of object is known a moment after its definition.
  await waitFor(() => succeeds(kubectl(objects, ...apply, '-')), layout, step, 'kube-apiserver');
  await waitFor(() => isTrue(callApi(api, `/api/v1/nodes/${name}`), 'Ready'), layout, step, 'kubelet');
  const deployment = '/apis/apps/v1/namespaces/kube-system/deployments/coredns';
  await waitFor(() => isTrue(callApi(api, deployment), 'Available'), layout, step, 'kubelet');
  await waitFor(() => felixReady(layout), layout, step, 'calico-felix');
}

const succeeds = (work: Promise<unknown>): Promise<boolean> =>
  work.then(
    () => true,
    () => false,
  );

interface WithConditions {
  readonly status?: { readonly conditions?: readonly { readonly type: string; readonly status: string }[] };
}

async function isTrue(object: Promise<unknown>, type: string): Promise<boolean> {
  const found = (await object.catch(() => ({}))) as WithConditions;
  return found.status?.conditions?.some((one) => one.type === type && one.status === 'True') ?? false;
}

/** NetworkPolicies are enforced from here on. Felix listens inside the node only. */
const felixReady = (layout: Layout): Promise<boolean> =>
  succeeds(run(insideNode(layout, [process.execPath, '-e', ASK_FELIX])));
const ASK_FELIX = "fetch('http://127.0.0.1:9099/readiness').then((r) => process.exit(r.ok ? 0 : 1))";

const READY_WITHIN_MS = 180_000;

/** Waits for a condition; says what it waits for, and shows that component's log when it never comes. */
async function waitFor(
  condition: () => Promise<boolean>,
  layout: Layout,
  step: Step,
  component: string,
): Promise<void> {
  const deadline = Date.now() + READY_WITHIN_MS;
  step.note(`waiting for ${component}`);
  step.explain(join(layout.log, `${component}.log`));
  while (!(await condition())) {
    if (runningNode(layout) === undefined) {
      step.explain(join(layout.log, 'node.log'));
      throw new Error('the node ended');
    }
    if (Date.now() > deadline)
      throw new Error(`${component} is not ready after 3 minutes${await restarts(layout)}`);
    await delay(100);
  }
  step.note('');
}

async function restarts(layout: Layout): Promise<string> {
  const statuses = (await readJson<{ [name: string]: ComponentStatus }>(layout.componentStatus)) ?? {};
  const unsteady = Object.entries(statuses).filter(([, status]) => status.restarts > 2);
  return unsteady
    .map(([name, { restarts: times, ended }]) => `; ${name} was restarted ${times} times (${ended})`)
    .join('');
}

export async function open(name: string): Promise<Cluster | undefined> {
  const layout = layoutOf(name);
  const record = await readJson<Record>(layout.record);
  if (record === undefined || runningNode(layout) === undefined) return undefined;
  return nativeCluster(name, layout, record.apiPort, imageBuilder(join(layout.log, 'images.log')));
}

function nativeCluster(name: string, layout: Layout, apiPort: number, builder: ImageBuilder): Cluster {
  return {
    name,
    provider: 'native',
    kubeconfig: layout.kubeconfig,
    tool: async (tool) => join(layout.bin, tool),
    async loadImages(sources, steps) {
      return steps.run('load images', async (step) => {
        step.explain(join(layout.log, 'images.log'));
        const images = new Map<string, Image>();
        for (const source of sources)
          images.set(source.name, await step.run(source.name, () => builder.ensure(source)));
        const log = join(layout.log, 'import.log');
        const count = await importImages(layout, builder.store, [...images.values()], log);
        step.note(count === 0 ? 'all there' : `${count} brought in`);
        return new Map([...images].map(([source, image]) => [source, image.reference]));
      });
    },
    node: {
      name,
      apiPort,
      command: (argv) => insideNode(layout, argv),
      outside: (ports) => createOutside(layout, ports),
    },
  };
}

export async function takeDown(name: string, { keep = false, steps }: TakeDown): Promise<void> {
  const layout = layoutOf(name);
  await locked(
    `${layout.state}.lock`,
    () => {},
    async () => {
      await steps.run('end the node', async (step) => {
        if (runningNode(layout) === undefined) step.note('it was not running');
        await stopNode(name, layout);
      });
      await removeRecord(name);
      if (!keep) await steps.run('remove its state', () => removeState(layout));
    },
  );
}

async function removeState({ state }: Layout): Promise<void> {
  await rm(state, { recursive: true, force: true });
}
