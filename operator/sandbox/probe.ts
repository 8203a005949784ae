import { isDeepStrictEqual } from 'node:util';
import type { Deployment, Node, Pod } from '../kinds.ts';
import { ANNOTATION, LABEL, type SpaceNames } from '../names.ts';
import type { Desired } from '../runtime/apply.ts';
import { digestOf } from '../runtime/digest.ts';
import { oneLine } from '../text.ts';
import { ATTESTER, attesterContainer } from './attester.ts';

export const PROBE = 'sandbox-probe';
export const NETWORK_PROBE = 'network-probe';

/**
 * The kubelet ends a probe after this time; on a node that cannot create a sandbox it would otherwise wait without end.
 */
const DEADLINE_SECONDS = 60;

/** Enough for every target of a network probe in both address families. */
const LONGEST = 2_000;

/** What a probe pod on each node finds out. */
export interface Question {
  readonly names: SpaceNames;
  readonly component: typeof PROBE | typeof NETWORK_PROBE;
  /** What the answer depends on beside node, boot and runtime. */
  readonly about: (node: Node) => readonly string[];
  /** The attester with its arguments; only its result counts as an answer. */
  readonly container: ReturnType<typeof attesterContainer> & { readonly env?: readonly object[] };
}

/** The question whether a pod of the class is in the sandbox. */
export const sandboxQuestion = (names: SpaceNames): Question => ({
  names,
  component: PROBE,
  about: () => [],
  container: attesterContainer(names.attesterImage),
});

/** The result of the probes of a node. */
export interface Proof {
  readonly verdict: 'untried' | 'running' | 'passed' | 'failed';
  /** What the probe found or waits for, if that says more than the verdict. */
  readonly found?: string;
  /** Set if the probe exited by itself and failed. */
  readonly exitCode?: number;
}

/**
 * The name contains everything that the answer depends on, so that another boot, runtime or attester needs a new probe.
 */
export function probeName({ names, component, about, container }: Question, node: Node): string {
  const { bootID = '', containerRuntimeVersion = '' } = node.status?.nodeInfo ?? {};
  const where = [node.metadata.uid ?? node.metadata.name, bootID, containerRuntimeVersion, ...about(node)];
  const how = [names.runtimeClass, names.handler, container.image, ...container.command];
  return `${component}-${digestOf([where, how]).slice(0, 16)}`;
}

/** Names the probe that waits for a node, after everything that its result would be valid for. */
export function waitingProbeName({ runtimeClass, handler, attesterImage }: SpaceNames): string {
  return `${PROBE}-waits-${digestOf([runtimeClass, handler, attesterImage]).slice(0, 16)}`;
}

/**
 * A pod with only the attester, in the sandbox, for any node that the class permits. While it is pending, an autoscaler
 * adds a node, and that node's own probe then proves the node.
 */
export function waitingProbeObject(names: SpaceNames, operator?: Deployment): Desired {
  const probe = probeObject(sandboxQuestion(names), { metadata: { name: '' } }, operator);
  const { annotations: _, ...metadata } = probe.metadata;
  const { affinity: _affinity, ...spec } = probe['spec'] as Record<string, unknown>;
  return { metadata: { ...metadata, name: waitingProbeName(names) }, spec };
}

/**
 * A pod with only the attester, in the sandbox, on one node. It stays after it has ended, as a record that a restarted
 * operator reads instead of probing again. It is deleted with the operator's Deployment.
 */
export function probeObject(question: Question, node: Node, operator?: Deployment): Desired {
  const { names, component, container } = question;
  const { name } = node.metadata;
  return {
    metadata: {
      name: probeName(question, node),
      namespace: names.systemNamespace,
      labels: { [LABEL.space]: names.space, [LABEL.component]: component },
      annotations: { [ANNOTATION.node]: name },
      ...(operator?.metadata.uid === undefined
        ? {}
        : {
            ownerReferences: [
              {
                apiVersion: 'apps/v1',
                kind: 'Deployment',
                name: operator.metadata.name,
                uid: operator.metadata.uid,
              },
            ],
          }),
    },
    spec: {
      runtimeClassName: names.runtimeClass,
      restartPolicy: 'Never',
      activeDeadlineSeconds: DEADLINE_SECONDS,
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
      // The scheduler places it as it places Assistants, so that the class's own rules and the node's capacity count.
      affinity: {
        nodeAffinity: {
          requiredDuringSchedulingIgnoredDuringExecution: {
            nodeSelectorTerms: [{ matchFields: [{ key: 'metadata.name', operator: 'In', values: [name] }] }],
          },
        },
      },
      containers: [container],
      ...(names.pullSecrets?.length ? { imagePullSecrets: names.pullSecrets.map((name) => ({ name })) } : {}),
    },
  };
}

export function isProbe(pod: Pod | undefined): boolean {
  const component = pod?.metadata.labels?.[LABEL.component];
  return component === PROBE || component === NETWORK_PROBE;
}

/** Whether the pod was created for this question. */
export const asks = ({ component }: Question, pod: Pod): boolean =>
  pod.metadata.labels?.[LABEL.component] === component;

/** Whether the pod is a probe for any node. */
export const isWaitingProbe = (pod: Pod | undefined): boolean =>
  isProbe(pod) && probedNode(pod) === undefined;

/** The name of the node that a probe pod is for. */
export function probedNode(pod: Pod | undefined): string | undefined {
  return isProbe(pod) ? pod?.metadata.annotations?.[ANNOTATION.node] : undefined;
}

/** The result for a node, from the pods that were created to probe it. */
export function proofOf(question: Question, node: Node, probes: readonly Pod[]): Proof {
  if (probes.length === 0) return { verdict: 'untried' };
  const pod = probes.find(({ metadata }) => metadata.name === probeName(question, node));
  if (!pod || pod.metadata.deletionTimestamp !== undefined) return { verdict: 'untried' };
  const { phase, reason: podReason, conditions = [], containerStatuses = [] } = pod.status ?? {};
  const status = containerStatuses.find(({ name }) => name === ATTESTER);
  if (phase === 'Succeeded') {
    return isGenuine(question, node, pod)
      ? { verdict: 'passed' }
      : { verdict: 'failed', found: 'its pod is not the one that the operator created' };
  }
  if (phase === 'Failed' && podReason === 'DeadlineExceeded') {
    const found = `no end within ${DEADLINE_SECONDS} s, as when the runtime cannot create a sandbox or the image cannot be pulled`;
    return { verdict: 'failed', found };
  }
  if (phase === 'Failed') {
    const end = status?.state?.terminated;
    const { message, reason } = end ?? pod.status ?? {};
    const found = oneLine(message ?? reason ?? 'its pod failed', LONGEST);
    return { verdict: 'failed', found, ...(end?.exitCode === undefined ? {} : { exitCode: end.exitCode }) };
  }
  if (conditions.some(({ type, status: is }) => type === 'PodScheduled' && is === 'False'))
    return { verdict: 'running', found: 'the scheduler does not assign its pod to that node' };
  const waits = status?.state?.waiting?.reason ?? '';
  return /Image/.test(waits)
    ? { verdict: 'running', found: 'its image cannot be pulled' }
    : { verdict: 'running' };
}

/**
 * Whether the succeeded container is the attester, in a pod of the class on the node. The pod's name alone proves
 * nothing, since anybody can choose it.
 */
function isGenuine({ names, container }: Question, node: Node, pod: Pod): boolean {
  const { nodeName, runtimeClassName, containers = [], initContainers = [] } = pod.spec ?? {};
  const [only, ...others] = containers;
  return (
    nodeName === node.metadata.name &&
    runtimeClassName === names.runtimeClass &&
    others.length === 0 &&
    initContainers.length === 0 &&
    only?.image === container.image &&
    isDeepStrictEqual(only.command, container.command) &&
    isDeepStrictEqual(only.env ?? [], container.env ?? []) &&
    [only.args, only.envFrom, only.volumeMounts].every((list = []) => list.length === 0)
  );
}
