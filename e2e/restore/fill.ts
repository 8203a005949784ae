/** Runs the pods that fill a Space's volumes. */
import { setTimeout as wait } from 'node:timers/promises';
import type { Kube } from '../space/kube.ts';
import type { KubeObject } from '../space/kube-object.ts';
import { isHopeless } from '../space/rollout.ts';
import { claimOf } from './pods.ts';
import { RestoreProblem } from './problem.ts';

export interface FillContext {
  readonly kube: Kube;
  readonly signal: AbortSignal;
}

/**
 * Runs a pod to its end, with its volume, and leaves it; returns the last line of its output. A pod that an earlier
 * command has started is continued, so that nothing is done twice.
 */
export async function fill(
  about: FillContext,
  pod: KubeObject | undefined,
  set?: KubeObject,
): Promise<string> {
  const { kube } = about;
  if (pod === undefined) return 'not in this backup: the external server has a backup of its own';
  const { name, namespace = '' } = pod.metadata;
  const before: string = (await kube.get('pod', name, namespace))?.['status']?.phase ?? '';
  if (!['Running', 'Succeeded'].includes(before)) {
    await removePod(kube, pod);
    if (set !== undefined) await kube.apply(claimOf(set));
    await kube.apply(pod);
  }
  const phase = await phaseOf(about, pod, ['Succeeded', 'Failed']);
  const { stdout } = await kube.run(['logs', '-n', namespace, name, '-c', pod['spec'].containers[0].name]);
  const lines = stdout.trim().split('\n');
  if (phase === 'Failed') throw new RestoreProblem(`pod ${name} failed:\n${lines.slice(-12).join('\n')}`);
  return lines.at(-1) ?? '';
}

export async function removePod(
  kube: Kube,
  { metadata: { name, namespace = '' } }: KubeObject,
): Promise<void> {
  await kube.run(['delete', 'pod', name, '-n', namespace, '--wait=true', '--ignore-not-found']);
}

export async function phaseOf(
  { kube, signal }: FillContext,
  pod: KubeObject,
  wanted: readonly string[],
): Promise<string> {
  for (;;) {
    const found = await kube.get('pod', pod.metadata.name, pod.metadata.namespace);
    const phase: string = found?.['status']?.phase ?? '';
    if (wanted.includes(phase)) return phase;
    if (found !== undefined && isHopeless(found))
      throw new RestoreProblem(
        `pod ${pod.metadata.name} cannot start: ${JSON.stringify(found['status'].containerStatuses)}`,
      );
    await wait(500, undefined, { signal });
  }
}
