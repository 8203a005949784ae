import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Step } from '../../progress/index.ts';
import { KUBERNETES_VERSION } from '../builds/pins.ts';
import { dockerAlias, dockerBuild } from '../docker.ts';
import type { BringUp, Cluster, TakeDown } from '../model.ts';
import { AUDIT } from '../native/configuration.ts';
import type { Problem } from '../native/preflight.ts';
import { ClusterProblem } from '../problem.ts';
import { clusterDirectory, kubeconfigPath, readRecord, removeRecord, writeRecord } from '../record.ts';
import { run } from '../run.ts';
import { built, pinnedTool } from '../tools.ts';
import { calicoImage, calicoObjects } from './calico.ts';
import { KIND_RUNSC, kindConfiguration, NODE, NODE_IMAGE } from './configuration.ts';
import { gatherFacts, imageProblem, problemsOf } from './engine.ts';
import { createOutside } from './outside.ts';

/** A node image of your own, where Docker Hub cannot be asked. */
const nodeImage = () => process.env['SPACE_NODE_IMAGE'] ?? NODE_IMAGE;
const nodeOf = (name: string) => `${name}-control-plane`;
const inNode = (name: string, ...argv: readonly string[]): readonly [string, ...string[]] => [
  'docker',
  'exec',
  '--interactive',
  nodeOf(name),
  ...argv,
];

/** True when a cluster can be had of the engine that `docker` means. */
export const engineServes = async (): Promise<boolean> =>
  problemsOf(await gatherFacts(nodeImage())).length === 0;

/** Calico enforces NetworkPolicies, as on the native node; kind's default StorageClass provisions volumes. */
export async function bringUp({ name, apiPort, images = [], steps }: BringUp): Promise<Cluster> {
  return steps.run('kind cluster', async (step) => {
    refuse(...problemsOf(await gatherFacts(nodeImage())));
    const directory = clusterDirectory(name);
    await mkdir(directory, { recursive: true });
    const log = join(directory, 'kind.log');
    step.explain(log);
    const kind = await program(log);
    const kubectl = await pinnedTool('kubectl', directory);
    const found = await clusters(kind);
    if (found.includes(name)) await resume(name, step);
    else {
      const gvisor = await step.run('gvisor', () => built('gvisor', log));
      const calico = await step.run('calico', () => built('calico', log));
      await step.run('node', () => create(name, kind, apiPort, log));
      await step.run('gVisor in the node', () => installGvisor(name, gvisor, log));
      await step.run('Calico in the node', () => installCalico(name, kind, kubectl, calico, log));
    }
    const kubeconfig = kubeconfigPath(name);
    await run([kind, 'export', 'kubeconfig', '--name', name, '--kubeconfig', kubeconfig], { log });
    const ask = (...args: readonly string[]) =>
      run([kubectl, `--kubeconfig=${kubeconfig}`, ...args], { log });
    // In a node that was started again it takes a while to answer.
    const gvisorClass = join(import.meta.dirname, '..', 'manifests', 'gvisor.yaml');
    await patiently(() => ask('apply', '--filename', gvisorClass));
    await step.run('node Ready', () =>
      ask('wait', '--for=condition=Ready', `node/${nodeOf(name)}`, '--timeout=180s').catch(
        (cause: unknown) => {
          throw new ClusterProblem(
            `The node of ${name} does not become Ready.`,
            'Remove the cluster with npm run down, and bring it up again.',
            { cause },
          );
        },
      ),
    );
    for (const image of images)
      await step.run(image.name, () => dockerBuild(image, join(directory, 'images.log')));
    return cluster(name, kind);
  });
}

/** A cluster that stands still goes on; one that this checkout did not make is not touched. */
async function resume(name: string, step: Step): Promise<void> {
  if ((await readRecord(name))?.provider !== 'kind')
    refuse({
      wrong: `There is a kind cluster ${name} already, which this checkout did not make.`,
      mend: 'Remove it with npm run down, or choose another name with --cluster.',
    });
  const running = await isRunning(name);
  step.note(running ? 'runs already' : 'started again');
  if (!running) await run(['docker', 'start', nodeOf(name)]);
}

const isRunning = async (name: string): Promise<boolean> =>
  (await run(['docker', 'inspect', '--format', '{{.State.Running}}', nodeOf(name)])).trim() === 'true';

async function create(name: string, kind: string, apiPort: number | undefined, log: string): Promise<void> {
  const image = nodeImage();
  const version = await run(['docker', 'run', '--rm', '--entrypoint', 'cat', image, '/kind/version']);
  const problem = imageProblem(image, version, KUBERNETES_VERSION);
  if (problem !== undefined) refuse(problem);
  const kubeconfig = kubeconfigPath(name);
  // First: what is interrupted from here on is found by `down`.
  await writeRecord(name, { provider: 'kind', kubeconfig });
  const audit = join(clusterDirectory(name), 'audit.json');
  await writeFile(audit, JSON.stringify(AUDIT));
  await run([kind, 'create', 'cluster', '--config=-'], {
    input: kindConfiguration({ name, image, audit, apiPort }),
    env: { ...process.env, KUBECONFIG: kubeconfig },
    log,
  });
}

/** Copied, not mounted: the node needs nothing of this machine's disk from then on. */
async function installGvisor(name: string, gvisor: string, log: string): Promise<void> {
  for (const file of ['runsc', 'containerd-shim-runsc-v1'])
    await run(['docker', 'cp', join(gvisor, file), `${nodeOf(name)}:${NODE.programs}/${file}`], { log });
  const write = inNode(name, 'sh', '-c', `cat > ${NODE.runscConfiguration}`);
  await run(write, { input: KIND_RUNSC, log });
}

/** The node becomes Ready by it: before Felix is, the runtime knows of no network. */
async function installCalico(
  name: string,
  kind: string,
  kubectl: string,
  calico: string,
  log: string,
): Promise<void> {
  const image = await calicoImage(calico, log);
  await run([kind, 'load', 'docker-image', '--name', name, image], { log });
  const certified = `kubeadm kubeconfig user --client-name=calico --config=/kind/kubeadm.conf > ${NODE.calicoKubeconfig}`;
  await run(inNode(name, 'sh', '-ec', certified), { log });
  const apply = (file: string, input?: string) =>
    run([kubectl, `--kubeconfig=${kubeconfigPath(name)}`, 'apply', '--server-side', '--filename', file], {
      log,
      ...(input !== undefined && { input }),
    });
  await apply(join(calico, 'crds'));
  const objects = await calicoObjects(nodeOf(name), image);
  // A new kind of object is known a moment after its definition.
  await patiently(() => apply('-', objects));
}

/** Tries again what the API server cannot do yet. */
async function patiently(act: () => Promise<unknown>): Promise<void> {
  for (let tries = 1; ; tries++) {
    const failed = await act().then(
      () => undefined,
      (error: unknown) => error,
    );
    if (failed === undefined) return;
    if (tries === 120) throw failed;
    await delay(500);
  }
}

export async function open(name: string): Promise<Cluster | undefined> {
  const record = await readRecord(name);
  if (record?.provider !== 'kind' || !(await isRunning(name).catch(() => false))) return undefined;
  return cluster(name, await program(join(clusterDirectory(name), 'kind.log')));
}

/** True when the engine has a cluster of that name, whoever made it. */
export async function exists(name: string): Promise<boolean> {
  const node = run(['docker', 'container', 'inspect', nodeOf(name)]);
  return node.then(
    () => true,
    () => false,
  );
}

export async function takeDown(name: string, { keep = false, steps }: TakeDown): Promise<void> {
  await steps.run('kind cluster', async () => {
    refuse(...problemsOf(await gatherFacts('any')));
    if (keep) {
      await run(['docker', 'stop', nodeOf(name)]);
      return;
    }
    const directory = clusterDirectory(name);
    await mkdir(directory, { recursive: true });
    const kind = await program(join(directory, 'kind.log'));
    await run([kind, 'delete', 'cluster', '--name', name, '--kubeconfig', kubeconfigPath(name)]);
    await removeRecord(name);
  });
}

function cluster(name: string, kind: string): Cluster {
  const directory = clusterDirectory(name);
  return {
    name,
    provider: 'kind',
    kubeconfig: kubeconfigPath(name),
    tool: (tool) => pinnedTool(tool, directory),
    node: {
      name: nodeOf(name),
      auditLogs: NODE.audit,
      command: (argv) => inNode(name, ...argv),
      outside: (options) => createOutside(outsideOf(name), options),
    },
    async loadImages(images, steps) {
      return steps.run('load images', async (step) => {
        const log = join(directory, 'images.log');
        step.explain(log);
        const references = new Map<string, string>();
        const names: string[] = [];
        for (const image of images) {
          const reference = await step.run(image.name, () => dockerBuild(image, log));
          references.set(image.name, reference);
          names.push(reference, ...(await dockerAlias(image, reference)));
        }
        await run([kind, 'load', 'docker-image', '--name', name, ...names], { log });
        return references;
      });
    },
  };
}

const outsideOf = (name: string) => ({
  name: nodeOf(name),
  log: join(clusterDirectory(name), 'images.log'),
  command: (argv: readonly string[]) => inNode(name, ...argv),
});

const program = async (log: string): Promise<string> => join(await built('kind', log), 'kind');

const clusters = async (kind: string): Promise<readonly string[]> =>
  (await run([kind, 'get', 'clusters'])).split('\n').filter((line) => line !== '');

function refuse(...problems: readonly Problem[]): void {
  const [first, ...others] = problems.map(({ wrong, mend }) => `${wrong}\n${mend}`);
  if (first !== undefined) throw new ClusterProblem(first, others.join('\n'));
}
