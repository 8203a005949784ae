import type { Logger } from 'pino';
import { reconcileAssistant } from './assistant/controller.ts';
import { orphans } from './assistant/orphans.ts';
import { announceAddresses } from './assistant/steps/egress.ts';
import { reconcileConsoleRole } from './capsule/console-role.ts';
import { reconcileCapsules } from './capsule/controller.ts';
import type { Context } from './context.ts';
import type { keepInStep } from './egress/in-step.ts';
import type { Clock } from './runtime/clock.ts';
import type { ControllerOptions, Result } from './runtime/controller.ts';
import type { Key } from './runtime/kube-object.ts';
import type { RuntimeMetrics } from './runtime/metrics.ts';
import { Queue, type QueueOptions } from './runtime/queue.ts';
import { reconcileProbe } from './sandbox/prober.ts';
import type { Sightings } from './sandbox/sightings.ts';
import type { Stores } from './stores.ts';

const CAPSULE_WORKERS = 8;
/** One Capsule gets at most half of them, which is also how many requests a broker serves for it at once. */
const ASSISTANT_WORKERS = 24;
const PROBE_WORKERS = 4;
const GATEWAY_WORKERS = 4;
/** Each call ends within seconds, and pods of a whole Space may come or go at once. */
const ADDRESS_WORKERS = 24;
/**
 * How many workers may process low-priority keys, which come from a start or a sweep: enough to use an API server well,
 * and few enough that it still answers others at once.
 */
const CAPSULES_LOW = 2;
const ASSISTANTS_LOW = 4;
const LONGEST_RETRY_MS = 30_000;
/** A replica that is not in step serves nobody, so the wait is short. */
const LONGEST_GATEWAY_RETRY_MS = 5_000;
/** Longer than the longest call to a broker. */
const RECONCILE_DEADLINE_MS = 90_000;

/** One queue for each controller, with the keys to reconcile. */
export interface Queues {
  readonly capsules: Queue;
  readonly assistants: Queue;
  readonly probes: Queue;
  readonly gateways: Queue;
  /** Assistants whose pods have come or gone. */
  readonly addresses: Queue;
  readonly roles: Queue;
}

export function makeQueues(
  clock: Clock,
  metrics: RuntimeMetrics,
  { assistants }: Pick<Stores, 'assistants'>,
): Queues {
  const queue = (name: string, options: Partial<QueueOptions> = {}) =>
    new Queue({ clock, longestRetryMs: LONGEST_RETRY_MS, ...options, observer: metrics.queue(name) });
  const queues = {
    capsules: queue('capsule', { lowAtOnce: CAPSULES_LOW }),
    assistants: queue('assistant', {
      lowAtOnce: ASSISTANTS_LOW,
      ownerOf: (key) => assistants.get(key)?.spec.capsule,
    }),
    probes: queue('probe'),
    gateways: queue('gateway', { longestRetryMs: LONGEST_GATEWAY_RETRY_MS }),
    addresses: queue('address', { ownerOf: (key) => assistants.get(key)?.spec.capsule }),
    roles: queue('role'),
  };
  metrics.watchQueues({
    capsule: queues.capsules,
    assistant: queues.assistants,
    probe: queues.probes,
    gateway: queues.gateways,
    address: queues.addresses,
    role: queues.roles,
  });
  return queues;
}

export interface ControllersOptions {
  readonly context: Context;
  readonly queues: Queues;
  readonly inStep: ReturnType<typeof keepInStep>;
  readonly sightings: Sightings;
  readonly log: Logger;
  readonly metrics: RuntimeMetrics;
  /** The longest that one reconcile may take, if not as long as usual. */
  readonly reconcileMs?: number | undefined;
}

/** The controllers with their queues, in the order in which they start. */
export function makeControllers(options: ControllersOptions): ControllerOptions[] {
  const { context, queues, inStep, sightings, log, metrics, reconcileMs = RECONCILE_DEADLINE_MS } = options;
  const controller = (
    name: string,
    queue: Queue,
    workers: number,
    reconcile: (context: Context, key: Key, signal: AbortSignal) => Promise<Result>,
  ): ControllerOptions => {
    const observer = metrics.controller(name, workers);
    return {
      name,
      queue,
      workers,
      deadlineMs: reconcileMs,
      reconcile: (key, signal) => reconcile(context, key, signal),
      onActive: observer.onActive,
      onOutcome(key, outcome, tookMs, error) {
        observer.onOutcome(outcome, tookMs);
        if (error && outcome !== 'requeue')
          log.warn({ err: error, controller: name, key, outcome }, 'reconcile failed');
        else log.debug({ controller: name, key, outcome, tookMs: Math.round(tookMs) }, 'reconciled');
      },
    };
  };
  return [
    controller('capsule', queues.capsules, CAPSULE_WORKERS, reconcileCapsules(orphans)),
    // With one worker there is one writer; with two, the slower one could overwrite a newer list with an older one.
    controller('role', queues.roles, 1, reconcileConsoleRole),
    // This controller starts before that of Assistants, so that few of them are reconciled twice at the start.
    controller('gateway', queues.gateways, GATEWAY_WORKERS, inStep.reconcile),
    controller('address', queues.addresses, ADDRESS_WORKERS, announceAddresses),
    controller('assistant', queues.assistants, ASSISTANT_WORKERS, inStep.watching(reconcileAssistant)),
    controller('probe', queues.probes, PROBE_WORKERS, (context, key, signal) =>
      reconcileProbe(context, sightings, key, signal),
    ),
  ];
}
