import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Step } from '../../progress/index.ts';
import { KUBERNETES_VERSION } from '../builds/pins.ts';
import { AUDIT } from '../native/configuration.ts';
import { ClusterProblem } from '../problem.ts';
import { type ClusterRecord, clusterDirectory, kubeconfigPath, writeRecord } from '../record.ts';
import { type ProgramFailed, run } from '../run.ts';
import { built } from '../tools.ts';
import { calicoImage, calicoObjects } from './calico.ts';
import { KIND_RUNSC, kindConfiguration, NODE } from './configuration.ts';
import { imageProblem, nodeImage, refuse } from './engine.ts';
import { createNetwork, inNode, networkEnvironment, nodeOf } from './node.ts';
import { retryUntilServed } from './patience.ts';
import { versionOf } from './remains.ts';

export interface Create {
  readonly name: string;
  /** Paths of the programs. */
  readonly kind: string;
  readonly kubectl: string;
  readonly apiPort: number | undefined;
  readonly log: string;
}

/**
 * Creates a node that does not exist yet: kind's, then what it needs to run gVisor and to enforce network policies.
 */
export async function create(of: Create, step: Step): Promise<void> {
  const part = <T>(title: string, work: () => Promise<T>): Promise<T> =>
    step.run(title, (inner) => {
      inner.explain(of.log);
      return work();
    });
  const gvisor = await part('gvisor', () => built('gvisor', of.log));
  const calico = await part('calico', () => built('calico', of.log));
  await part('node', () => createNode(of));
  await part('gVisor in the node', () => installGvisor(of, gvisor));
  await part('Calico in the node', () => installCalico(of, calico));
  await writeRecord(of.name, { ...recordOf(of.name), whole: true });
}

const recordOf = (name: string): ClusterRecord => ({ provider: 'kind', kubeconfig: kubeconfigPath(name) });

async function createNode({ name, kind, apiPort, log }: Create): Promise<void> {
  const image = nodeImage();
  // By this name a later run finds a container that a killed `up` left behind.
  const show = ['run', '--rm', '--name', versionOf(name), '--entrypoint', 'cat', image, '/kind/version'];
  const version = await run(['docker', ...show]).catch((cause: ProgramFailed) => {
    const mend = 'Set SPACE_NODE_IMAGE to a node image that the engine has, or let it ask where that one is.';
    throw new ClusterProblem(`The node image cannot be had: ${cause.message}`, mend, { cause });
  });
  const problem = imageProblem(image, version, KUBERNETES_VERSION);
  if (problem !== undefined) refuse(problem);
  // This comes first, so that the next `up` recognises an interrupted cluster as its own, and creates it again.
  await writeRecord(name, recordOf(name));
  await createNetwork(name);
  const audit = join(clusterDirectory(name), 'audit.json');
  await writeFile(audit, JSON.stringify(AUDIT));
  await run([kind, 'create', 'cluster', '--config=-'], {
    input: kindConfiguration({ name, image, audit, apiPort }),
    env: { ...networkEnvironment(name), KUBECONFIG: kubeconfigPath(name) },
    log,
  });
}

/** The programs are copied, not mounted, so that the node needs nothing of this machine's disk afterwards. */
async function installGvisor({ name, log }: Create, gvisor: string): Promise<void> {
  for (const file of ['runsc', 'containerd-shim-runsc-v1'])
    await run(['docker', 'cp', join(gvisor, file), `${nodeOf(name)}:${NODE.programs}/${file}`], { log });
  const write = inNode(name, 'sh', '-c', `cat > ${NODE.runscConfiguration}`);
  await run(write, { input: KIND_RUNSC, log });
}

/** This makes the node Ready: before Felix is ready, the runtime has no network configuration. */
async function installCalico({ name, kind, kubectl, log }: Create, calico: string): Promise<void> {
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
  await retryUntilServed(() => apply('-', objects));
}
