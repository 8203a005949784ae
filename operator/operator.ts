import type { Logger } from 'pino';
import { reconcileAssistant } from './assistant/controller.ts';
import { sweepOrphans } from './assistant/orphans.ts';
import type { DatabaseBroker } from './brokers/database.ts';
import { fenced } from './brokers/fenced.ts';
import type { ObjectStoreBroker } from './brokers/objects.ts';
import { reconcileCapsules } from './capsule/controller.ts';
import { Usages } from './capsule/usages.ts';
import { type Finding, wireTime } from './conditions.ts';
import type { Context, SpaceNames } from './context.ts';
import { egressGateways } from './egress/gateways.ts';
import { keepInStep } from './egress/in-step.ts';
import type { CallReplica } from './egress/replica.ts';
import { replicasIn } from './egress/replicas.ts';
import type { GrantKey } from './grants/sign.ts';
import { type Account, identify } from './identity.ts';
import type { Assistant, Capsule } from './kinds.ts';
import { ANNOTATION, FIELD_MANAGER, leaseName } from './names.ts';
import { Writer } from './runtime/apply.ts';
import { sparingClient } from './runtime/breaker.ts';
import type { ApiClient } from './runtime/client.ts';
import { systemClock } from './runtime/clock.ts';
import type { ControllerOptions, Result } from './runtime/controller.ts';
import { EventRecorder } from './runtime/events.ts';
import { fencedClient, Lease, type LeaseOptions } from './runtime/lease.ts';
import { type Manager, startManager } from './runtime/manager.ts';
import type { RuntimeMetrics } from './runtime/metrics.ts';
import type { Key } from './runtime/objects.ts';
import { Queue } from './runtime/queue.ts';
import { isLost } from './sandbox/gate.ts';
import { connectProber, reconcileProbe } from './sandbox/prober.ts';
import { Sightings } from './sandbox/sightings.ts';
import { type Gate, watchGate } from './sandbox/watch.ts';
import { makeStores } from './stores.ts';
import { connectTriggers } from './triggers.ts';
import { makeReflectors } from './watches.ts';
import { keepWritten } from './written.ts';

export interface OperatorOptions {
  readonly client: ApiClient;
  /** A way of its own to the API server, so that a renewal never waits for other calls; else that of all. */
  readonly leaseClient?: ApiClient;
  readonly names: SpaceNames;
  readonly database: DatabaseBroker;
  /** Reads the Space's authority, PEM, where there is one. */
  readonly spaceCa?: (() => Promise<string>) | undefined;
  /** Left out in a Space without an object store. */
  readonly objectStore?: ObjectStoreBroker | undefined;
  /** Left out where the data plane does not use Capsules' own credentials. */
  readonly grantKey?: (() => Promise<GrantKey>) | undefined;
  readonly callReplica: CallReplica;
  readonly log: Logger;
  readonly metrics: RuntimeMetrics;
  /** This process, among all that ever lead this Space. */
  readonly holder: string;
  readonly lease?: Pick<LeaseOptions, 'durationMs' | 'giveUpMs' | 'renewMs' | 'lookMs' | 'isGone'>;
  /** Told that the lead is lost: nothing is written any more, and the process should end. */
  readonly onLost?: (reason: unknown) => void;
  /** Told when the gate's verdict changes. */
  readonly onGate?: (finding: Finding) => void;
}

const CAPSULE_WORKERS = 8;
const ASSISTANT_WORKERS = 16;
const PROBE_WORKERS = 4;
const GATEWAY_WORKERS = 4;
/** Of them, for what a start or a sweep brings: enough to keep an API server busy, and it still answers others at once. */
const CAPSULES_LOW = 2;
const ASSISTANTS_LOW = 4;
/** Longer than the longest call of a broker. */
const RECONCILE_DEADLINE_MS = 90_000;
const SWEEP_MS = 10 * 60_000;

/** Wires stores, watches, queues and controllers, and starts them. */
export function startOperator(options: OperatorOptions): Operator {
  const { names, log, metrics, holder } = options;
  const clock = systemClock;
  let account: Account | undefined;
  const lease = new Lease({
    client: options.leaseClient ?? options.client,
    clock,
    namespace: names.systemNamespace,
    name: leaseName(names.space),
    identity: holder,
    ...options.lease,
    owner: () => account?.owner,
    onProblem: (error) => log.warn({ err: error }, 'the lease could not be read or written'),
  });
  const client = sparingClient(fencedClient(options.client, lease), clock);
  lease.lost.addEventListener('abort', () => {
    metrics.observeLead(false);
    for (const queue of Object.values(queues)) queue.close();
    options.onLost?.(lease.lost.reason);
  });
  const stores = makeStores();
  const queues = {
    capsules: new Queue({
      clock,
      longestRetryMs: 30_000,
      lowAtOnce: CAPSULES_LOW,
      observer: metrics.queue('capsule'),
    }),
    assistants: new Queue({
      clock,
      longestRetryMs: 30_000,
      lowAtOnce: ASSISTANTS_LOW,
      observer: metrics.queue('assistant'),
    }),
    probes: new Queue({ clock, longestRetryMs: 30_000, observer: metrics.queue('probe') }),
    // Nobody gets out through one that is not in step.
    gateways: new Queue({ clock, longestRetryMs: 5_000, observer: metrics.queue('gateway') }),
  };
  metrics.watchQueues({
    capsule: queues.capsules,
    assistant: queues.assistants,
    probe: queues.probes,
    gateway: queues.gateways,
  });

  const triggers = connectTriggers(names.namespace, stores, queues);
  const sightings = new Sightings(() => clock.now());
  connectProber(stores, queues.probes, sightings);
  const inStep = keepInStep({ clock, queues });
  const reflectors = makeReflectors({
    client: options.client,
    clock,
    names,
    stores,
    onProblem: (kind, error, retryInMs) =>
      log.warn({ err: error, kind, retryInMs: Math.round(retryInMs) }, 'watch failed'),
    onHealth: () => gate.check(),
  });
  const gate = watchGate({ names, stores, reflectors, clock }, (finding) => {
    log.info({ status: finding.status, reason: finding.reason }, 'the sandbox gate changed');
    options.onGate?.(finding);
    // What is told or begun may wait for what users do meanwhile; what must stop may not.
    triggers.everything(names.onLoss === 'stop' && isLost(finding) ? 'live' : 'low');
  });

  const events = new EventRecorder({
    client,
    clock,
    controller: 'platform.space/operator',
    instance: holder,
    onProblem: (error) => log.warn({ err: error }, 'an Event was not recorded'),
  });
  const writer = new Writer({
    client,
    fieldManager: FIELD_MANAGER,
    digestAnnotation: ANNOTATION.applied,
    beforeWrite: metrics.observeWrite,
    onWritten: keepWritten(stores),
  });
  const context: Context = {
    names,
    get identity() {
      if (!account) throw new Error('who the operator is was not asked yet');
      return account.identity;
    },
    stores,
    client,
    writer,
    events,
    database: fenced(options.database, () => lease.check()),
    spaceCa: async () => options.spaceCa?.(),
    objectStore: options.objectStore && fenced(options.objectStore, () => lease.check()),
    grantKey: options.grantKey,
    gateways: egressGateways(
      () => replicasIn(stores, names),
      async (...call) => {
        lease.check();
        return options.callReplica(...call);
      },
    ),
    gate: gate.now,
    now: () => wireTime(),
    log,
    databaseUsages: new Usages(() => clock.now()),
    objectUsages: new Usages(() => clock.now()),
    sweepMs: () => SWEEP_MS * (0.8 + 0.4 * clock.random()),
  };

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
      deadlineMs: RECONCILE_DEADLINE_MS,
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
  const manager = startManager({
    reflectors: reflectors.all,
    async lead(signal) {
      log.info({ sinceStartMs: sinceStartMs() }, 'warm: the stores are filled, and the Lease is asked for');
      account = await identify(options.client, clock, signal);
      await lease.acquire(signal);
      metrics.observeLead(true);
    },
    async release() {
      await events.flush();
      metrics.observeLead(false);
      await lease.release();
    },
    controllers: [
      controller('capsule', queues.capsules, CAPSULE_WORKERS, reconcileCapsules(sweepOrphans)),
      // First, so that few Assistants are worked on twice at the start.
      controller('gateway', queues.gateways, GATEWAY_WORKERS, inStep.reconcile),
      controller('assistant', queues.assistants, ASSISTANT_WORKERS, inStep.watching(reconcileAssistant)),
      controller('probe', queues.probes, PROBE_WORKERS, (context, key, signal) =>
        reconcileProbe(context, sightings, key, signal),
      ),
    ],
  });
  return {
    ...manager,
    get warm() {
      return manager.warm;
    },
    get ready() {
      return manager.ready;
    },
    proofs: gate.proofs,
    *opened() {
      for (const { kind, store } of [
        { kind: 'Namespace', store: stores.namespaces },
        { kind: 'Capsule', store: stores.capsules },
        { kind: 'Assistant', store: stores.assistants },
      ] as const)
        for (const { metadata } of store.list())
          if (metadata.annotations?.[ANNOTATION.open] === 'true') yield kind;
    },
    *verdicts() {
      for (const capsule of stores.capsules.list()) yield verdictOf('Capsule', capsule);
      for (const assistant of stores.assistants.list()) yield verdictOf('Assistant', assistant);
    },
  };
}

/** Of the process. */
export const sinceStartMs = () => Math.round(performance.now());

/** What an object's condition `Ready` says; `Unknown` where nothing was said yet. */
interface Verdict {
  readonly kind: 'Capsule' | 'Assistant';
  readonly ready: string;
  readonly reason: string;
}

export interface Operator extends Manager {
  /** Of every Capsule and Assistant. */
  readonly verdicts: () => Iterable<Verdict>;
  /** Kinds of the objects that somebody has opened to others, one by one. */
  readonly opened: () => Iterable<'Namespace' | 'Capsule' | 'Assistant'>;
  /** What probes have shown, node by node. */
  readonly proofs: Gate['proofs'];
}

function verdictOf(kind: Verdict['kind'], { status }: Capsule | Assistant): Verdict {
  const ready = status?.conditions?.find(({ type }) => type === 'Ready');
  return { kind, ready: ready?.status ?? 'Unknown', reason: ready?.reason ?? 'Waiting' };
}
