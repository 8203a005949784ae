import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { Cluster } from '../cluster/index.ts';
import type { Step } from '../progress/index.ts';
import { referenceOf } from './images.ts';
import { finish, type Kube, type KubeObject } from './kube.ts';

const CHART = resolve(import.meta.dirname, '../../charts/space');
const WORKLOADS = 'deployments,statefulsets';
const READY_WITHIN_MS = 180_000;

/** One Space on a cluster. */
export interface Release {
  readonly space: string;
  readonly namespace: string;
}

/** Installs or upgrades the release when chart or values differ from what is installed, and waits for its pods. */
export async function installRelease(
  cluster: Cluster,
  kube: Kube,
  { space, namespace }: Release,
  references: ReadonlyMap<string, string>,
  step: Step,
): Promise<void> {
  const helm = await cluster.tool('helm');
  const values = (['operator.image', 'dbBroker.image', 'postgres.image'] as const).map(
    (value) => `${value}=${referenceOf(references, value)}`,
  );
  const digest = await digestOf(values);
  const run = (...args: string[]) =>
    finish(helm, ['--kubeconfig', cluster.kubeconfig, '-n', namespace, ...args]);

  const status = await run('status', space, '-o', 'json');
  const installed =
    status.code === 0
      ? (JSON.parse(status.stdout) as { info: { status: string; description: string } })
      : undefined;
  if (installed?.info.status === 'deployed' && installed.info.description === digest)
    step.note('installed already');
  else {
    // Helm leaves definitions alone that exist already; a newer checkout may have newer ones.
    const definitions = await kube.run([
      'apply',
      '--server-side',
      '--force-conflicts',
      '-f',
      `${CHART}/crds`,
    ]);
    if (definitions.code !== 0) throw new Error(definitions.stderr);
    const set = values.flatMap((value) => ['--set-string', value]);
    const args = [
      'upgrade',
      '--install',
      space,
      CHART,
      '--create-namespace',
      '--skip-crds',
      '--description',
      digest,
      ...set,
    ];
    const upgrade = await run(...args);
    if (upgrade.code !== 0) throw new Error(upgrade.stderr.trim());
    await kube.run([
      'label',
      '--overwrite',
      'namespace',
      namespace,
      'pod-security.kubernetes.io/enforce=restricted',
    ]);
  }
  for (const place of [`${space}-services`, namespace]) await rolledOut(kube, place, step);
}

async function digestOf(values: readonly string[]): Promise<string> {
  const hash = createHash('sha256').update(JSON.stringify(values));
  for (const entry of (await readdir(CHART, { recursive: true, withFileTypes: true }))
    .filter((e) => e.isFile())
    .sort(byPath)) {
    hash.update(entry.name).update(await readFile(resolve(entry.parentPath, entry.name)));
  }
  return `development, ${hash.digest('hex').slice(0, 16)}`;
}

const byPath = (a: { parentPath: string; name: string }, b: { parentPath: string; name: string }) =>
  `${a.parentPath}/${a.name}` < `${b.parentPath}/${b.name}` ? -1 : 1;

const isReady = ({ metadata, spec, status }: KubeObject) =>
  (status?.observedGeneration ?? 0) >= (metadata.generation ?? 0) &&
  (status?.updatedReplicas ?? 0) >= spec.replicas &&
  (status?.readyReplicas ?? 0) >= spec.replicas;

async function rolledOut(kube: Kube, namespace: string, step: Step): Promise<void> {
  const deadline = performance.now() + READY_WITHIN_MS;
  for (;;) {
    const late = (await kube.list(WORKLOADS, namespace)).filter((workload) => !isReady(workload));
    if (late.length === 0) return;
    const names = late.map((workload) => workload.metadata.name).join(', ');
    step.note(`waiting for ${names}`);
    if (performance.now() > deadline) throw new Error(await whyNotReady(kube, namespace, names));
    await pause(300);
  }
}

/** What a person would look at first: events that warn, and the end of the logs of pods that are not ready. */
async function whyNotReady(kube: Kube, namespace: string, names: string): Promise<string> {
  const events = await kube.run([
    'get',
    'events',
    '-n',
    namespace,
    '--field-selector',
    'type=Warning',
    '--sort-by',
    '.lastTimestamp',
  ]);
  const lines = [
    `${names} in ${namespace} not ready after ${READY_WITHIN_MS / 1000} s`,
    ...tail(events.stdout, 8),
  ];
  for (const pod of await kube.list('pods', namespace)) {
    const ready = pod.status.conditions?.some(
      (c: { type: string; status: string }) => c.type === 'Ready' && c.status === 'True',
    );
    if (ready === true) continue;
    const logs = await kube.run(['logs', '-n', namespace, pod.metadata.name, '--tail=10']);
    lines.push(`the end of the log of ${pod.metadata.name}:`, ...tail(logs.stdout || logs.stderr, 10));
  }
  return lines.join('\n');
}

const tail = (text: string, count: number) =>
  text
    .trimEnd()
    .split('\n')
    .slice(-count)
    .map((line) => `  ${line}`);
