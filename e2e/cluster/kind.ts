import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { dockerAlias, dockerAnswers, dockerBuild } from './docker.ts';
import type { BringUp, Cluster, TakeDown } from './model.ts';
import { ClusterProblem } from './problem.ts';
import { clusterDirectory, kubeconfigPath, readRecord, removeRecord, writeRecord } from './record.ts';
import { run } from './run.ts';
import { built, findTool, onPath } from './tools.ts';

/** What the node container gets of ours: gVisor's two programs and their configuration. */
interface Gvisor {
  readonly runsc: string;
  readonly shim: string;
  readonly configuration: string;
}

const RUNSC_CONFIGURATION = '/etc/containerd/runsc.toml';
const RUNTIMES = 'plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runsc';

/** A kind cluster whose one node has gVisor as the runtime handler `runsc` (containerd 2's keys). */
export function kindConfig(gvisor: Gvisor): object {
  const programs = '/usr/local/bin';
  return {
    kind: 'Cluster',
    apiVersion: 'kind.x-k8s.io/v1alpha4',
    nodes: [
      {
        role: 'control-plane',
        extraMounts: [
          { hostPath: gvisor.runsc, containerPath: `${programs}/runsc`, readOnly: true },
          { hostPath: gvisor.shim, containerPath: `${programs}/containerd-shim-runsc-v1`, readOnly: true },
          { hostPath: gvisor.configuration, containerPath: RUNSC_CONFIGURATION, readOnly: true },
        ],
      },
    ],
    containerdConfigPatches: [
      [
        `[${RUNTIMES}]`,
        '  runtime_type = "io.containerd.runsc.v1"',
        `[${RUNTIMES}.options]`,
        '  TypeUrl = "io.containerd.runsc.v1.options"',
        `  ConfigPath = "${RUNSC_CONFIGURATION}"`,
      ].join('\n'),
    ],
  };
}

/** kind's kubelet uses systemd's cgroups, so runsc must put its own there, too. */
export const KIND_RUNSC = '[runsc_config]\n  platform = "systrap"\n  systemd-cgroup = "true"\n';

/** kind's own network enforces NetworkPolicies and its default StorageClass provisions volumes. */
export async function bringUp({ name, steps }: BringUp): Promise<Cluster> {
  return steps.run('kind cluster', async (step) => {
    const kind = program();
    if (!(await dockerAnswers()))
      throw new ClusterProblem('No Docker engine answers.', 'Start it, or choose another provider.');
    const directory = clusterDirectory(name);
    const log = join(directory, 'kind.log');
    await mkdir(directory, { recursive: true });
    step.explain(log);
    if ((await kindClusters(kind)).includes(name)) {
      step.note('runs already');
    } else {
      const gvisor = await step.run('gvisor', () => built('gvisor', log));
      const configuration = join(directory, 'runsc.toml');
      await writeFile(configuration, KIND_RUNSC);
      const config = kindConfig({
        runsc: join(gvisor, 'runsc'),
        shim: join(gvisor, 'containerd-shim-runsc-v1'),
        configuration,
      });
      await run([kind, 'create', 'cluster', '--name', name, '--wait=180s', '--config=-'], {
        input: stringify(config),
        env: { ...process.env, KUBECONFIG: kubeconfigPath(name) },
        log,
      });
    }
    await run([kind, 'export', 'kubeconfig', '--name', name, '--kubeconfig', kubeconfigPath(name)], { log });
    const kubectl = await findTool('kubectl', directory);
    const runtimeClass = join(import.meta.dirname, 'manifests', 'gvisor.yaml');
    await run([kubectl, `--kubeconfig=${kubeconfigPath(name)}`, 'apply', '--filename', runtimeClass], {
      log,
    });
    await writeRecord(name, { provider: 'kind', kubeconfig: kubeconfigPath(name) });
    return cluster(name, kind);
  });
}

export async function open(name: string): Promise<Cluster | undefined> {
  const record = await readRecord(name);
  if (record?.provider !== 'kind') return undefined;
  const kind = program();
  return (await kindClusters(kind)).includes(name) ? cluster(name, kind) : undefined;
}

export async function takeDown(name: string, { keep = false, steps }: TakeDown): Promise<void> {
  const kind = program();
  await steps.run('kind cluster', async (step) => {
    if (keep) {
      step.note('left as it is: a kind cluster keeps its state only while it runs');
      return;
    }
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
    tool: (tool) => findTool(tool, directory),
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

function program(): string {
  const kind = onPath('kind');
  if (kind !== undefined) return kind;
  throw new ClusterProblem(
    'A Docker engine answers, but the program kind is not on the PATH.',
    'Install it (go install sigs.k8s.io/kind@latest), or choose another provider with --provider.',
  );
}

const kindClusters = async (kind: string): Promise<readonly string[]> =>
  (await run([kind, 'get', 'clusters'])).split('\n').filter((line) => line !== '');
