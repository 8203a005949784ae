import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Step } from '../../progress/index.ts';
import { cacheRoot } from '../builds/cache.ts';
import { dockerAlias, dockerBuild } from '../docker.ts';
import { locked } from '../lock.ts';
import type { BringUp, Cluster, TakeDown } from '../model.ts';
import { goProblem, goVersion, type Problem } from '../native/preflight.ts';
import { ClusterProblem } from '../problem.ts';
import { clusterDirectory, kubeconfigPath, readRecord, removeRecord } from '../record.ts';
import { run } from '../run.ts';
import { areBuilt, built, pinnedTool } from '../tools.ts';
import { NODE } from './configuration.ts';
import { type Create, create } from './create.ts';
import { gatherFacts, nodeImage, problemsOf, refuse } from './engine.ts';
import { imagesOf, inNode, isRunning, networkOf, nodeOf } from './node.ts';
import { createOutside } from './outside.ts';
import { retryUntilServed } from './patience.ts';
import { foreign, ownerOf, remains, removeRemains } from './remains.ts';

/** True if the engine that `docker` uses can run a cluster. */
export const engineServes = async (): Promise<boolean> =>
  problemsOf(await gatherFacts(nodeImage())).length === 0;

/** Calico enforces NetworkPolicies, as on the native node; kind's default StorageClass provisions volumes. */
export const bringUp = (options: BringUp): Promise<Cluster> =>
  options.steps.run('kind cluster', async (step) => {
    refuse(...problemsOf(await gatherFacts(nodeImage())), ...(await goProblems()));
    return alone(options.name, step, () => bringUpAlone(options, step));
  });

async function bringUpAlone({ name, apiPort, images = [] }: BringUp, step: Step): Promise<Cluster> {
  const directory = clusterDirectory(name);
  await mkdir(directory, { recursive: true });
  const log = join(directory, 'kind.log');
  step.explain(log);
  const kind = await program(log);
  const kubectl = await pinnedTool('kubectl', directory);
  // Both are awaited to their end, since work that continues after a failed command would disturb the next one.
  const [nodeUp, imagesBuilt] = await Promise.allSettled([
    bringUpNode({ name, kind, kubectl, apiPort, log }, step),
    step.run('images', async (inner) => {
      inner.explain(imagesLog(name));
      for (const image of images) await inner.run(image.name, () => dockerBuild(image, imagesLog(name)));
    }),
  ]);
  if (nodeUp.status === 'rejected') throw nodeUp.reason;
  if (imagesBuilt.status === 'rejected') throw imagesBuilt.reason;
  return cluster(name);
}

/** Some programs are compiled for a cluster. The machine must be able to do that, unless they are in the cache. */
async function goProblems(): Promise<readonly Problem[]> {
  const problem = (await areBuilt('kind', 'kubernetes', 'gvisor', 'calico'))
    ? undefined
    : goProblem(goVersion());
  return problem === undefined ? [] : [problem];
}

async function bringUpNode(wanted: Create, step: Step): Promise<void> {
  const { name, kind, kubectl, log } = wanted;
  if (!(await resumed(name, step))) {
    await removeRemains(name);
    await create(wanted, step);
  }
  const kubeconfig = kubeconfigPath(name);
  await run([kind, 'export', 'kubeconfig', '--name', name, '--kubeconfig', kubeconfig], { log });
  const ask = (...args: readonly string[]) => run([kubectl, `--kubeconfig=${kubeconfig}`, ...args], { log });
  // A restarted node takes a while to answer.
  const gvisorClass = join(import.meta.dirname, '..', 'manifests', 'gvisor.yaml');
  await retryUntilServed(() => ask('apply', '--filename', gvisorClass));
  const ready = ['wait', '--for=condition=Ready', `node/${nodeOf(name)}`, '--timeout=600s'];
  await step.run('node Ready', () =>
    ask(...ready).catch((cause: unknown) => {
      const mend = 'Remove the cluster with npm run down, and bring it up again.';
      throw new ClusterProblem(`The node of ${name} does not become Ready.`, mend, { cause });
    }),
  );
}

/** Starts a stopped cluster again. One of another checkout is not changed, and an incomplete one is of no use. */
async function resumed(name: string, step: Step): Promise<boolean> {
  const owner = await ownerOf(name);
  if (owner === 'nobody') return false;
  if (owner === 'another') refuse(foreign(name));
  const record = await readRecord(name);
  if (record?.provider !== 'kind')
    refuse({
      wrong: `There is a kind cluster ${name} already, which this checkout did not make.`,
      mend: 'Remove it with npm run down, or choose another name with --cluster.',
    });
  if (record?.whole !== true) {
    step.note('an earlier up was interrupted: what it left is removed, and the cluster is made anew');
    return false;
  }
  const running = await isRunning(name);
  step.note(running ? 'runs already' : 'started again');
  if (!running) await run(['docker', 'start', nodeOf(name)]);
  return true;
}

export async function open(name: string): Promise<Cluster | undefined> {
  const record = await readRecord(name);
  if (record?.provider !== 'kind' || !(await isRunning(name).catch(() => false))) return undefined;
  return cluster(name);
}

/** True if an engine answers and has anything of a cluster of that name, whoever created it. */
export const exists = (name: string): Promise<boolean> => remains(name).catch(() => false);

/** This needs only the engine, so that a cluster can be removed even if kind cannot be built any more. */
export async function takeDown(name: string, { keep = false, steps }: TakeDown): Promise<void> {
  await steps.run('kind cluster', (step) =>
    alone(name, step, async () => {
      refuse(...problemsOf(await gatherFacts('any')));
      const owner = await ownerOf(name);
      if (owner === 'another') refuse(foreign(name));
      if (!(await remains(name))) step.note('it is not up');
      if (keep) {
        if (owner === 'space') await run(['docker', 'stop', nodeOf(name)]);
        return;
      }
      await removeRemains(name);
      await removeRecord(name);
    }),
  );
}

/**
 * Only one command at a time brings this cluster up or takes it down, since otherwise one would remove what another
 * creates.
 */
const alone = <T>(name: string, step: Step, work: () => Promise<T>): Promise<T> =>
  locked(
    join(cacheRoot(), 'kind', `${name}.lock`),
    () => step.note('another command is at work on it'),
    work,
  );

function cluster(name: string): Cluster {
  const directory = clusterDirectory(name);
  const node = { name: nodeOf(name), command: (argv: readonly string[]) => inNode(name, ...argv) };
  return {
    name,
    provider: 'kind',
    kubeconfig: kubeconfigPath(name),
    tool: (tool) => pinnedTool(tool, directory),
    node: {
      ...node,
      auditLogs: NODE.audit,
      outside: (options) =>
        createOutside({ ...node, network: networkOf(name), log: imagesLog(name) }, options),
    },
    async loadImages(images, steps) {
      return steps.run('load images', async (step) => {
        const log = imagesLog(name);
        step.explain(log);
        const references = new Map<string, string>();
        const missing: string[] = [];
        const known = await imagesOf(name);
        for (const image of images) {
          const reference = await step.run(image.name, () => dockerBuild(image, log));
          references.set(image.name, reference);
          // A tag that is the hash of its content always means the same image; an alias may have meant another.
          const digest = known.get(reference);
          const names = [reference, ...(await dockerAlias(image, reference))];
          missing.push(...names.filter((one) => digest === undefined || known.get(one) !== digest));
        }
        if (missing.length > 0)
          await run([await program(log), 'load', 'docker-image', '--name', name, ...missing], { log });
        step.note(missing.length === 0 ? 'all there' : `${missing.length} brought in`);
        return references;
      });
    },
  };
}

const imagesLog = (name: string) => join(clusterDirectory(name), 'images.log');

const program = async (log: string): Promise<string> => join(await built('kind', log), 'kind');
