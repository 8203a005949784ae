import { isTrue } from '../conditions.ts';
import type { Context } from '../context.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Result } from '../runtime/controller.ts';
import { type Key, keyOf } from '../runtime/kube-object.ts';
import type { Queue } from '../runtime/queue.ts';
import { idOf } from '../stores.ts';
import type { Replica } from './replica.ts';
import { isGateway, replicaOf } from './replicas.ts';

/**
 * How long Assistants that cannot be reconciled delay a replica that has the policies of all others, and the interval of the
 * attempts, in milliseconds.
 */
const PATIENCE_MS = 60_000;
const AGAIN_MS = 2_000;

/** A process of a replica that is not in step yet, that is, may lack policies. */
interface Start {
  readonly pod: Key;
  readonly instance: string;
  readonly since: number;
  /**
   * Assistants that existed when the process was first seen and whose policies it lacks; undefined until they are
   * counted.
   */
  left?: { untried: Set<Key>; tried: Set<Key> };
  /** When every Assistant had been tried once. */
  triedAt?: number;
}

type Reconcile = (context: Context, key: Key, signal: AbortSignal) => Promise<Result>;

interface InStepOptions {
  readonly clock: Clock;
  readonly queues: { readonly assistants: Queue; readonly gateways: Queue };
}

/**
 * Replicas start without policies. Until the operator tells a replica that it is in step, it answers unknown callers
 * that they should retry. A replica is in step once each Assistant has been reconciled since the replica first
 * answered, or after a while if the rest fails for reasons that are not the replica's.
 */
export function keepInStep(options: InStepOptions) {
  const { clock, queues } = options;
  const { gateways } = queues;
  const starts = new Map<Replica['key'], Start>();

  /** Reconciles a replica; the key is that of its pod. */
  const reconcile: Reconcile = async (context, key, signal) => {
    const replica = replicaAt(context, key);
    for (const [at, { pod }] of starts) if (pod === key && at !== replica?.key) starts.delete(at);
    if (!replica) return {};
    let start = starts.get(replica.key);
    if (start === undefined) {
      const { inStep, instance } = await context.gateways.stateOf(replica, signal);
      if (inStep) return {};
      start = { pod: key, instance, since: clock.now() };
      starts.set(replica.key, start);
    }
    const again = waitOf(options, context, start, gateways.running(key));
    if (again !== undefined) return again;
    try {
      await context.gateways.markInStep(replica, start.instance, signal);
    } catch (error) {
      // The replica may have restarted, so everything is sent again.
      starts.delete(replica.key);
      context.gateways.forget(replica);
      throw error;
    }
    // The next reconcile asks the replica itself whether it is in step.
    starts.delete(replica.key);
    return {};
  };

  /** Wraps the reconciler of Assistants: notes which replicas no longer have to wait for the Assistant. */
  const watching =
    (work: Reconcile): Reconcile =>
    async (context, key, signal) => {
      // A reconcile that began before a replica was seen may not have sent it the policy.
      const open = [...starts].filter(([, { left }]) => left?.untried.has(key) || left?.tried.has(key));
      let failed = true;
      try {
        const result = await work(context, key, signal);
        failed = false;
        return result;
      } finally {
        for (const [at, start] of open) {
          const { pod, left } = start;
          if (!left || starts.get(at) !== start) continue;
          left.untried.delete(key);
          left.tried.delete(key);
          if (!isSettled(context, key, at, failed)) left.tried.add(key);
          if (left.untried.size === 0) gateways.addAfter(pod, left.tried.size === 0 ? 0 : AGAIN_MS);
        }
      }
    };

  return { reconcile, watching };
}

/** How long to wait before the replica may be in step; undefined if it may be now. */
function waitOf(
  { clock, queues: { assistants } }: InStepOptions,
  context: Context,
  start: Start,
  priority: ReturnType<Queue['running']> = 'low',
): Result | undefined {
  if (start.left === undefined) {
    // An Assistant that is being deleted gets no policy any more.
    const staying = context.stores.assistants.list().filter(({ metadata }) => !metadata.deletionTimestamp);
    const all = staying.map(keyOf);
    // While the gate is closed, no policy is sent of an Assistant whose pods run with an earlier manifest.
    const closed = all.length > 0 && !isTrue(context.gate());
    if (closed && clock.now() - start.since < PATIENCE_MS) return { requeueAfterMs: AGAIN_MS };
    start.left = { untried: new Set(all), tried: new Set() };
    for (const key of all) assistants.add(key, priority);
  }
  const { untried, tried } = start.left;
  if (untried.size > 0) return {};
  if (tried.size === 0) return undefined;
  start.triedAt ??= clock.now();
  if (clock.now() - start.triedAt >= PATIENCE_MS) {
    const some = [...tried].slice(0, 10);
    context.log.warn(
      { pod: start.pod, count: tried.size, some },
      'a replica counts as up to date without some Assistants',
    );
    return undefined;
  }
  start.left = { untried: tried, tried: new Set() };
  for (const key of tried) assistants.add(key, 'low');
  return {};
}

/** The replica in a pod, if the pod belongs to this Space and is not being deleted. */
function replicaAt({ stores, names }: Context, key: Key): Replica | undefined {
  const pod = stores.pods.get(key);
  const found =
    pod &&
    isGateway(pod) &&
    pod.metadata.namespace === names.servicesNamespace &&
    !pod.metadata.deletionTimestamp;
  return found ? replicaOf(pod) : undefined;
}

/**
 * Whether the Assistant no longer delays the replica. The replica's answer decides; without one, the reconcile's
 * success does.
 */
function isSettled(
  { stores, gateways }: Context,
  key: Key,
  replica: Replica['key'],
  failed: boolean,
): boolean {
  const assistant = stores.assistants.get(key);
  if (!assistant || assistant.metadata.deletionTimestamp) return true;
  const id = idOf(assistant);
  const about = id === undefined ? undefined : { capsule_id: assistant.spec.capsule, app_id: id };
  return (about && gateways.settled({ key: replica }, about)) ?? !failed;
}
