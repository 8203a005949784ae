import { setTimeout as pause } from 'node:timers/promises';
import type { Step } from '../progress/index.ts';
import type { Kube } from './kube.ts';
import type { KubeObject } from './kube-object.ts';

const WORKLOADS = ['deployments', 'statefulsets'];
/** A workload that cannot become ready is reported at once; a busy machine may need this long. */
const READY_WITHIN_MS = 600_000;
const LOG_LINES = 12;
const EVENT_LINES = 8;

/** Reasons that waiting does not change. */
const HOPELESS = new Set([
  'ErrImagePull',
  'ImagePullBackOff',
  'ErrImageNeverPull',
  'InvalidImageName',
  'CreateContainerConfigError',
  'CreateContainerError',
]);
const RESTARTS_TO_DESPAIR = 4;

/** Waits until every workload of the namespaces is rolled out; fails early if waiting cannot help. */
export async function rolledOut(kube: Kube, namespaces: readonly string[], step: Step): Promise<void> {
  const deadline = performance.now() + READY_WITHIN_MS;
  for (;;) {
    const late = await lateWorkloads(kube, namespaces);
    if (late.length === 0) {
      step.note('');
      return;
    }
    const names = late.map(({ metadata }) => metadata.name).join(', ');
    step.note(`waiting for ${names}`);
    const pods = (await Promise.all(namespaces.map((namespace) => kube.list('pods', namespace)))).flat();
    const hopeless = pods.some(isHopeless);
    if (hopeless || performance.now() > deadline) {
      const verdict = hopeless ? 'will not become ready' : `not ready after ${READY_WITHIN_MS / 1000} s`;
      throw new Error([`${names}: ${verdict}`, ...(await symptoms(kube, namespaces))].join('\n'));
    }
    await pause(300);
  }
}

/** The workloads of these namespaces that are not rolled out. */
export async function lateWorkloads(
  kube: Kube,
  namespaces: readonly string[],
): Promise<readonly KubeObject[]> {
  const workloads = await Promise.all(
    namespaces.flatMap((namespace) => WORKLOADS.map((kind) => kube.list(kind, namespace))),
  );
  return workloads.flat().filter((workload) => !isRolledOut(workload));
}

export function isRolledOut({ metadata, spec, status }: KubeObject): boolean {
  const wanted = spec.replicas ?? 1;
  return (
    (status?.observedGeneration ?? 0) >= (metadata.generation ?? 0) &&
    (status?.updatedReplicas ?? 0) >= wanted &&
    (status?.readyReplicas ?? 0) >= wanted &&
    (status?.replicas ?? 0) === wanted
  );
}

interface ContainerStatus {
  readonly restartCount: number;
  readonly state?: { readonly waiting?: { readonly reason?: string; readonly message?: string } };
}

export function isHopeless(pod: KubeObject): boolean {
  return containersOf(pod).some(({ restartCount, state }) => {
    const reason = state?.waiting?.reason ?? '';
    return HOPELESS.has(reason) || (reason === 'CrashLoopBackOff' && restartCount >= RESTARTS_TO_DESPAIR);
  });
}

const containersOf = ({ status }: KubeObject): readonly ContainerStatus[] => [
  ...(status?.initContainerStatuses ?? []),
  ...(status?.containerStatuses ?? []),
];

/**
 * What a person would look at first: why pods wait, warning Events, and the end of the logs of pods that are not
 * ready.
 */
export async function symptoms(kube: Kube, namespaces: readonly string[]): Promise<readonly string[]> {
  const found = await Promise.all(namespaces.map((namespace) => symptomsIn(kube, namespace)));
  return found.flat();
}

async function symptomsIn(kube: Kube, namespace: string): Promise<readonly string[]> {
  const lines: string[] = [];
  const pods = (await kube.list('pods', namespace)).filter((pod) => !isPodReady(pod));
  if (pods.length === 0) return lines;
  for (const pod of pods) {
    const { name } = pod.metadata;
    for (const { state } of containersOf(pod)) {
      const { reason, message = '' } = state?.waiting ?? {};
      if (reason !== undefined) lines.push(`pod ${namespace}/${name} waits: ${reason} ${message}`.trimEnd());
    }
    const log = await logOf(kube, namespace, name);
    if (log.length > 0) lines.push(`the end of the log of ${namespace}/${name}:`, ...log);
  }
  const warnings = ['get', 'events', '--namespace', namespace, '--field-selector', 'type=Warning'];
  const events = await kube.run([...warnings, '--sort-by', '.lastTimestamp', '--no-headers']);
  if (events.stdout.trim() !== '')
    lines.push(`warnings in ${namespace}:`, ...tail(events.stdout, EVENT_LINES));
  return lines;
}

/** If a container restarted, the log of the previous run says more than that of the current one. */
async function logOf(kube: Kube, namespace: string, pod: string): Promise<readonly string[]> {
  const logs = ['logs', '--namespace', namespace, pod, '--all-containers', `--tail=${LOG_LINES}`];
  for (const which of [['--previous'], []]) {
    const { code, stdout } = await kube.run([...logs, ...which]);
    if (code === 0 && stdout.trim() !== '') return tail(stdout, LOG_LINES);
  }
  return [];
}

const isPodReady = ({ status }: KubeObject): boolean =>
  status?.conditions?.some(
    (condition: { type: string; status: string }) =>
      condition.type === 'Ready' && condition.status === 'True',
  ) === true;

const tail = (text: string, count: number): readonly string[] =>
  text
    .trimEnd()
    .split('\n')
    .slice(-count)
    .map((line) => `  ${line}`);
