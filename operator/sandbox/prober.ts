import type { Context } from '../context.ts';
import { type Deployment, type Node, POD, type Pod, type RuntimeClass } from '../kinds.ts';
import type { SpaceNames } from '../names.ts';
import type { Desired } from '../runtime/apply.ts';
import type { Result } from '../runtime/controller.ts';
import { isAlreadyExists } from '../runtime/errors.ts';
import { type Key, type KubeObject, makeKey } from '../runtime/kube-object.ts';
import type { Queue } from '../runtime/queue.ts';
import type { Change } from '../runtime/store.ts';
import { together } from '../runtime/together.ts';
import type { Stores } from '../stores.ts';
import { isOutside } from './attester.ts';
import { isCandidate, isUsable } from './gate.ts';
import { isAsked, networkQuestion } from './network.ts';
import { canRun } from './node.ts';
import {
  asks,
  isProbe,
  isWaitingProbe,
  PROBE,
  probedNode,
  probeName,
  probeObject,
  proofOf,
  type Question,
  sandboxQuestion,
  waitingProbeName,
  waitingProbeObject,
} from './probe.ts';
import type { Sightings } from './sightings.ts';

/** A failed probe is repeated after this time, since a repair of containerd changes neither boot nor version. */
export const RETRY_MS = 30_000;
/**
 * Network policies are probed again after so many sweeps, since a network plugin's behaviour may change without a new
 * version.
 */
const NETWORK_SWEEPS = 6;

export interface ProbeView {
  readonly question: Question;
  readonly runtimeClass: RuntimeClass | undefined;
  readonly node: Node | undefined;
  /** All probe pods for this question with this node's name. */
  readonly probes: readonly Pod[];
  /** Pods of Assistants on this node that found themselves outside the sandbox. */
  readonly outside: readonly Pod[];
  /** Time since the operator first saw a pod. */
  readonly ageMs: (pod: Pod) => number;
  /** Milliseconds after which a node that has passed is probed again; undefined if its result holds for good. */
  readonly freshMs?: number;
}

export interface ProbePlan {
  readonly remove: readonly Pod[];
  readonly make: boolean;
  readonly lookAgainMs?: number;
}

/**
 * Decides about the probes of one node. A passed probe stays while its result holds. If a later pod contradicts it, the
 * node is probed again; when that passes, the pod that contradicted it is deleted, so that it is created again.
 */
export function planProbe(view: ProbeView): ProbePlan {
  const { question, runtimeClass, node, probes, outside, ageMs, freshMs } = view;
  const { names } = question;
  const standing = probes.filter(isStanding);
  if (!node) return { remove: standing, make: false };
  const name = probeName(question, node);
  const stale = standing.filter(({ metadata }) => metadata.name !== name);
  const wanted = isUsable(runtimeClass, names) && isCandidate(node, runtimeClass, names);
  const current = probes.find(({ metadata }) => metadata.name === name);
  if (!current) return { remove: stale, make: wanted };
  const { verdict } = proofOf(question, node, probes);
  if (!wanted || !isStanding(current) || verdict === 'running') return { remove: stale, make: false };
  const doubts = outside.filter(isStanding);
  // When the probe is gone, the node is reconciled again and gets a new one.
  if (verdict === 'passed' && doubts.some((pod) => createdAt(pod) >= createdAt(current)))
    return { remove: [...stale, current], make: false };
  const longest = (verdict === 'passed' ? freshMs : undefined) ?? RETRY_MS;
  const waitOf = (pod: Pod) => (isOlder(pod, runtimeClass) ? 0 : longest - ageMs(pod));
  const retried = verdict === 'failed' || freshMs !== undefined ? [current] : doubts;
  const waits = retried.map(waitOf).filter((wait) => wait > 0);
  const due = retried.filter((pod) => waitOf(pod) <= 0);
  return {
    remove: [...stale, ...due],
    make: false,
    ...(waits.length > 0 ? { lookAgainMs: Math.min(...waits) } : {}),
  };
}

/** The key of the probe that waits for a node, in place of a node's name. */
const ANY_NODE = ':any';

export interface WaitingView {
  readonly names: SpaceNames;
  readonly runtimeClass: RuntimeClass | undefined;
  readonly nodes: readonly Node[];
  /** All probe pods for any node. */
  readonly waiting: readonly Pod[];
  readonly ageMs: (pod: Pod) => number;
}

/** Keeps one pending probe while no node would accept it, so that an autoscaler adds one. */
export function planWaiting({ names, runtimeClass, nodes, waiting, ageMs }: WaitingView): ProbePlan {
  const standing = waiting.filter(isStanding);
  const wanted = isUsable(runtimeClass, names) && !nodes.some((node) => canRun(node, runtimeClass));
  if (!wanted) return { remove: standing, make: false };
  const name = waitingProbeName(names);
  const stale = standing.filter(({ metadata }) => metadata.name !== name);
  const current = waiting.find(({ metadata }) => metadata.name === name);
  if (!current) return { remove: stale, make: true };
  if (current.status?.phase !== 'Failed' || !isStanding(current)) return { remove: stale, make: false };
  const wait = RETRY_MS - ageMs(current);
  return wait > 0
    ? { remove: stale, make: false, lookAgainMs: wait }
    : { remove: [...stale, current], make: false };
}

const isStanding = ({ metadata }: Pod): boolean => metadata.deletionTimestamp === undefined;

/**
 * A result under an earlier class of this name says nothing about the present one, so the probe is repeated at once.
 */
const isOlder = (pod: Pod, runtimeClass: RuntimeClass | undefined): boolean =>
  runtimeClass !== undefined && createdAt(pod) < createdAt(runtimeClass);

const createdAt = ({ metadata }: KubeObject): number => Date.parse(metadata.creationTimestamp ?? '') || 0;

/**
 * Keeps one probe of each question for each node that Assistants could run on, and none for other nodes. If there is no
 * such node, one probe waits for one.
 */
export async function reconcileProbe(
  context: Context,
  sightings: Sightings,
  key: Key,
  signal: AbortSignal,
): Promise<Result> {
  const { names, stores } = context;
  const runtimeClass = stores.runtimeClasses.get(names.runtimeClass);
  const ageMs = (pod: Pod) => sightings.ageMs(pod);
  if (key === ANY_NODE) {
    const waiting = stores.pods.by('component', PROBE).filter(isWaitingProbe);
    const plan = planWaiting({ names, runtimeClass, nodes: stores.nodes.list(), waiting, ageMs });
    return act(context, plan, (operator) => waitingProbeObject(names, operator), signal);
  }
  const node = stores.nodes.get(key);
  const ask = (question: Question, more: Pick<ProbeView, 'outside' | 'freshMs'>) => {
    const probes = stores.pods.by('probe', key).filter((pod) => asks(question, pod));
    const plan = planProbe({ question, runtimeClass, node, probes, ageMs, ...more });
    return act(context, plan, (operator) => node && probeObject(question, node, operator), signal);
  };
  const network = networkQuestion(names, stores);
  const results = await together([
    ask(sandboxQuestion(names), { outside: stores.pods.by('outside', key) }),
    network && ask(network, { outside: [], freshMs: NETWORK_SWEEPS * context.sweepMs() }),
  ]);
  const waits = results.flatMap((result) => result?.requeueAfterMs ?? []);
  return waits.length === 0 ? {} : { requeueAfterMs: Math.min(...waits) };
}

async function act(
  { names, stores, writer }: Context,
  plan: ProbePlan,
  object: (operator: Deployment | undefined) => Desired | undefined,
  signal: AbortSignal,
): Promise<Result> {
  for (const pod of plan.remove) await writer.remove(POD, pod, signal);
  const operator = stores.deployments.get(makeKey(names.systemNamespace, `${names.space}-operator`));
  const probe = plan.make ? object(operator) : undefined;
  if (probe) {
    // The probe may exist already if an answer was lost or the watch is late.
    await writer.create(POD, probe, signal).catch((error: unknown) => {
      if (!isAlreadyExists(error)) throw error;
    });
  }
  return plan.lookAgainMs === undefined ? {} : { requeueAfterMs: plan.lookAgainMs };
}

/** Adds a node's key to the queue when a change concerns its probes. */
export function connectProber(stores: Stores, queue: Queue, sightings: Sightings): void {
  const priorityOf = ({ origin }: Change<KubeObject>) => (origin === 'list' ? 'low' : 'live');
  stores.nodes.onChange((change) => {
    queue.add(change.key, priorityOf(change));
    queue.add(ANY_NODE, priorityOf(change));
  });
  stores.runtimeClasses.onChange(() => {
    queue.add(ANY_NODE);
    for (const { metadata } of stores.nodes.list()) queue.add(metadata.name);
  });
  stores.pods.onChange((change) => {
    const pod = change.now ?? change.before;
    if (pod) sightings.note(pod, change.now !== undefined && (isProbe(pod) || isOutside(pod)));
    const node = probedNode(pod) ?? (pod && isOutside(pod) ? pod.spec?.nodeName : undefined);
    if (node !== undefined) queue.add(node, priorityOf(change));
    else if (isWaitingProbe(pod)) queue.add(ANY_NODE, priorityOf(change));
  });
  stores.services.onChange((change) => {
    if (!isAsked(change.now ?? change.before)) return;
    for (const { metadata } of stores.nodes.list()) queue.add(metadata.name, priorityOf(change));
  });
}
