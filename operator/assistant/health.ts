import { type Finding, no, yes } from '../conditions.ts';
import type { ContainerStatus, Deployment, Pod } from '../kinds.ts';
import { ANNOTATION } from '../names.ts';
import { attesterEnd, attesterStatus, isAttested, NOT_IN_SANDBOX, WALLS_OPEN } from '../sandbox/attester.ts';
import { oneLine } from '../text.ts';
import { hasEnded } from './pods.ts';

export interface WorkloadView {
  readonly image: string;
  readonly attesterImage: string;
  readonly replicas: number;
  /** The desired revision; pods of other revisions are on their way out. */
  readonly revision: string;
  readonly deployment: Deployment | undefined;
  readonly pods: readonly Pod[];
  /** The handler that the pods need, and the nodes that report others but not this one. */
  readonly handler: string;
  readonly without: ReadonlySet<string>;
  /** Nodes that are not Ready. */
  readonly unready: ReadonlySet<string>;
}

const PULL_FAILURES = new Set([
  'ErrImagePull',
  'ImagePullBackOff',
  'InvalidImageName',
  'ErrImageNeverPull',
  'RegistryUnavailable',
]);
const CONFIG_FAILURES = new Set(['CreateContainerConfigError', 'CreateContainerError', 'RunContainerError']);

/**
 * Whether the workload runs, and if not, what a person can do about it. This is read from the pods, which show a
 * problem before the Deployment does.
 */
export function decideWorkload(view: WorkloadView): Finding {
  const pods = view.pods.filter(
    (pod) =>
      pod.metadata.deletionTimestamp === undefined &&
      pod.metadata.annotations?.[ANNOTATION.revision] === view.revision &&
      // One that was evicted, say, stays for a person to read, and another is in its place.
      !hasEnded(pod),
  );
  const ready = pods.filter((pod) => isTrue(pod, 'Ready')).length;
  if (ready >= view.replicas)
    return yes('Ready', view.replicas === 1 ? 'Its pod is ready.' : `Its ${view.replicas} pods are ready.`);
  return (
    first(pods, (pod) => attesterProblem(pod, view.attesterImage)) ??
    first(pods, (pod) => lostNode(pod, view.unready)) ??
    first(pods, (pod) => containerProblem(pod, view.image)) ??
    first(pods, (pod) => wrongNode(pod, view)) ??
    refusal(view.deployment) ??
    first(pods, unschedulable) ??
    no('Starting', `${ready} of ${view.replicas} pods are ready; the others are starting.`)
  );
}

function isTrue(pod: Pod, condition: string): boolean {
  return pod.status?.conditions?.some(({ type, status }) => type === condition && status === 'True') ?? false;
}

/** The kubelet of a node that is not Ready no longer reports, so the pod's last status may be out of date. */
function lostNode(pod: Pod, unready: ReadonlySet<string>): Finding | undefined {
  const node = pod.spec?.nodeName;
  if (node === undefined || !unready.has(node)) return undefined;
  return no(
    'NodeNotReady',
    `Node "${node}", on which its pod runs, is not Ready. Kubernetes starts another pod elsewhere after it has waited for the node (five minutes by default), or soon after the Node object is deleted.`,
  );
}

/** The kubelet keeps retrying to create a sandbox with a handler that its runtime does not know. */
function wrongNode(pod: Pod, { handler, without }: WorkloadView): Finding | undefined {
  const node = pod.spec?.nodeName;
  if (node === undefined || !without.has(node) || isAttested(pod)) return undefined;
  return no(
    'NodeWithoutHandler',
    `The pod was scheduled on node "${node}", which does not report handler "${handler}", so it cannot start there. Give the RuntimeClass a scheduling.nodeSelector for the nodes that have it, or install the handler there.`,
  );
}

/** No other container of the pod starts until the attester has ended with 0. */
function attesterProblem(pod: Pod, image: string): Finding | undefined {
  const attester = attesterStatus(pod);
  if (!attester) return undefined;
  const ended = attesterEnd(attester);
  if (ended === undefined || ended.exitCode === 0) return pullFailure(attester, image);
  const node = pod.spec?.nodeName ?? '';
  if (ended.exitCode === NOT_IN_SANDBOX) {
    return no(
      'NotAttested',
      `The pod on node "${node}" is not in the sandbox: ${oneLine(ended.message ?? 'as the attester reported', 300)}. None of its other containers was started. On that node the runtime handler does not start gVisor: repair containerd's configuration there, or take the node out of service.`,
    );
  }
  if (ended.exitCode === WALLS_OPEN) {
    return no(
      'NotAttested',
      `The network policies of the pod on node "${node}" are not enforced: ${oneLine(ended.message ?? 'as the attester reported', 300)}, for 10 s. None of its other containers was started, and it is retried. Repair the network plugin there, or take the node out of service.`,
    );
  }
  const how = `${oneLine(ended.reason ?? 'Error', 80)}, exit code ${ended.exitCode ?? 'unknown'}`;
  return no(
    'NotAttested',
    `The attester (image "${image}") could not be run on node "${node}": ${how}. None of the pod's other containers was started. Check that image, and the sandbox of that node: kubectl describe pod says more.`,
  );
}

function pullFailure({ state }: ContainerStatus, image: string): Finding | undefined {
  if (!PULL_FAILURES.has(state?.waiting?.reason ?? '')) return undefined;
  return no(
    'ImagePullFailed',
    `Image "${image}" cannot be pulled. Check its name and tag, whether the nodes can reach the registry, and whether the registry requires credentials (image.pullSecrets of the chart).`,
  );
}

/** The kubelet's messages contain seconds and counts; only their stable part is reported. */
function containerProblem(pod: Pod, image: string): Finding | undefined {
  for (const container of pod.status?.containerStatuses ?? []) {
    const { state, lastState, restartCount = 0 } = container;
    const reason = state?.waiting?.reason ?? '';
    const unpulled = pullFailure(container, image);
    if (unpulled) return unpulled;
    if (CONFIG_FAILURES.has(reason)) return uncreated(state?.waiting?.message ?? reason);
    const ended = state?.terminated ?? lastState?.terminated;
    if (ended && (restartCount > 0 || state?.terminated)) {
      const how =
        ended.reason === 'OOMKilled'
          ? 'ran out of memory (raise spec.resources.limits.memory)'
          : `ended with exit code ${ended.exitCode ?? 'unknown'}`;
      return no(
        'CrashLooping',
        `The container ${how} and is restarted with increasing delays. Its log says more (kubectl logs --previous).`,
      );
    }
  }
  return undefined;
}

/** Pods need no Secrets but those that the operator creates, which looks at starting pods often. */
const SECRET_LOST = /^secret ".*" not found|^couldn't find key .* in Secret /;

/** Why the kubelet does not create the container, and what helps. */
function uncreated(what: string): Finding {
  const text = oneLine(what, 300);
  if (SECRET_LOST.test(what))
    return no('Starting', `The container waits for a Secret, which the operator creates again: ${text}.`);
  const advice = /non-?root/i.test(what)
    ? 'The image must run as a numeric user other than 0.'
    : 'Check the image, and command and args in the spec. kubectl describe pod says more.';
  return no('PodsRefused', `The container cannot be created: ${text}. ${advice}`);
}

/** Quota and Pod Security refuse the pod itself, and only the Deployment's status shows that. */
function refusal(deployment: Deployment | undefined): Finding | undefined {
  const failure = deployment?.status?.conditions?.find(
    ({ type, status }) => type === 'ReplicaFailure' && status === 'True',
  );
  return failure
    ? no('PodsRefused', `Its pod is not admitted: ${oneLine(failure.message ?? failure.reason ?? '', 400)}`)
    : undefined;
}

function unschedulable(pod: Pod): Finding | undefined {
  const failure = pod.status?.conditions?.find(
    ({ type, status }) => type === 'PodScheduled' && status === 'False',
  );
  return failure
    ? no('Unschedulable', `Its pod cannot be scheduled on any node: ${oneLine(failure.message ?? '', 400)}`)
    : undefined;
}

function first<T>(pods: readonly Pod[], look: (pod: Pod) => T | undefined): T | undefined {
  for (const pod of pods) {
    const found = look(pod);
    if (found) return found;
  }
  return undefined;
}
