import type { Logger } from 'pino';
import { admissionLook } from './admission.ts';
import { Fingerprints } from './assistant/inputs/fingerprint.ts';
import type { DatabaseBroker } from './brokers/database.ts';
import { fenced } from './brokers/fenced.ts';
import type { ObjectStoreBroker } from './brokers/objects.ts';
import { Usages } from './capsule/usages.ts';
import { type Finding, wireTime } from './conditions.ts';
import type { Context } from './context.ts';
import { makeControllers, makeQueues, type Queues } from './controllers.ts';
import { egressGateways } from './egress/gateways.ts';
import { keepInStep } from './egress/in-step.ts';
import type { CallReplica } from './egress/replica.ts';
import { replicasIn } from './egress/replicas.ts';
import { forgetGone } from './forget.ts';
import type { GrantKey } from './grants/sign.ts';
import { isCandidateEnding } from './holder.ts';
import { type Inventory, inventoryOf } from './inventory.ts';
import { Leadership } from './leadership.ts';
import { ANNOTATION, FIELD_MANAGER, type SpaceNames } from './names.ts';
import { Writer } from './runtime/apply.ts';
import { sparingClient } from './runtime/breaker.ts';
import type { ApiClient } from './runtime/client.ts';
import { type Clock, systemClock } from './runtime/clock.ts';
import { EventRecorder } from './runtime/events.ts';
import { Kept } from './runtime/kept.ts';
import { fencedClient, type LeaseOptions } from './runtime/lease.ts';
import { type Manager, startManager } from './runtime/manager.ts';
import type { RuntimeMetrics } from './runtime/metrics.ts';
import { isLost } from './sandbox/gate.ts';
import { connectProber } from './sandbox/prober.ts';
import { Sightings } from './sandbox/sightings.ts';
import { type Gate, type Network, watchGate, watchNetwork } from './sandbox/watch.ts';
import { makeStores, type Stores } from './stores.ts';
import { connectTriggers } from './triggers.ts';
import { makeReflectors } from './watches.ts';
import { cacheWriteResults } from './write-results.ts';

export interface OperatorOptions {
  readonly client: ApiClient;
  /** A separate client, so that renewals never wait for other calls; by default the same client. */
  readonly leaseClient?: ApiClient;
  readonly names: SpaceNames;
  readonly database: DatabaseBroker;
  /** Reads the Space's authority in PEM; absent without TLS. */
  readonly spaceCa?: (() => Promise<string>) | undefined;
  /** Reads the authorities of PostgreSQL servers that the Space does not run. */
  readonly databaseCa?: (() => Promise<string>) | undefined;
  /** Absent in a Space without an object store. */
  readonly objectStore?: ObjectStoreBroker | undefined;
  /** Absent if the data plane does not use Capsules' own credentials. */
  readonly grantKey?: (() => Promise<GrantKey>) | undefined;
  readonly callReplica: CallReplica;
  readonly log: Logger;
  readonly metrics: RuntimeMetrics;
  /** Identifies this process among all that ever lead this Space. */
  readonly holder: string;
  readonly lease?: Pick<LeaseOptions, 'durationMs' | 'giveUpMs' | 'renewMs' | 'lookMs' | 'isGone'>;
  /** Called when the Lease is lost: nothing is written any more, and the process should end. */
  readonly onLost?: (reason: unknown) => void;
  /** This machine's clock, in milliseconds since 1970. */
  readonly wallClock?: () => number;
  /** The longest that one reconcile may take, if not as long as usual. */
  readonly reconcileMs?: number | undefined;
  /** Called when the gate's verdict changes. */
  readonly onGate?: (finding: Finding) => void;
}

/** The mean time until an object is reconciled again that nothing has changed, in milliseconds. */
const SWEEP_MS = 10 * 60_000;

export interface Operator extends Manager, Inventory {
  /** What probes have shown on each node about the sandbox (`proofs`) and about network policies (`walls`). */
  readonly proofs: Gate['proofs'];
  readonly walls: Network['proofs'];
}

/** Wires stores, watches, queues and controllers, and starts them. */
export function startOperator(options: OperatorOptions): Operator {
  const { names, log, metrics } = options;
  const clock = systemClock;
  const stores = makeStores();
  const queues = makeQueues(clock, metrics, stores);
  const triggers = connectTriggers(names.namespace, stores, queues);
  const sightings = new Sightings(() => clock.now());
  connectProber(stores, queues.probes, sightings);
  const inStep = keepInStep({ clock, queues });

  const leadership = leadershipOf(options, queues, clock);
  const reflectors = makeReflectors({
    client: options.client,
    clock,
    names,
    stores,
    onProblem: (kind, error, retryInMs) =>
      log.warn({ err: error, kind, retryInMs: Math.round(retryInMs) }, 'watch failed'),
  });
  // Starting or reporting something may wait for changes that users make; stopping may not.
  const urgency = (finding: Finding) => (names.onLoss === 'stop' && isLost(finding) ? 'live' : 'low');
  const gate = watchGate({ names, stores, reflectors, clock }, (finding) => {
    log.info({ status: finding.status, reason: finding.reason }, 'the sandbox gate changed');
    options.onGate?.(finding);
    triggers.everything(urgency(finding));
  });
  const network = watchNetwork({ names, stores }, (finding) => {
    log.info({ status: finding.status, reason: finding.reason }, 'the state of the network policies changed');
    triggers.everything(urgency(finding));
  });
  for (const reflector of Object.values(reflectors.all)) reflector.onHealth(gate.check);
  stores.pods.onChange((change) => {
    if (isCandidateEnding(names.systemNamespace, change)) leadership.lease.expectRelease();
  });

  const context = makeContext(options, { stores, leadership, gate, network, clock });
  forgetGone(stores, context);
  const manager = startManager({
    reflectors: reflectors.all,
    async lead(signal) {
      log.info(
        { sinceStartMs: sinceStartMs() },
        'warm: the stores are filled, and the operator waits for the Lease',
      );
      await leadership.acquire(signal);
      metrics.observeLead(true);
    },
    async release() {
      await context.events.flush();
      metrics.observeLead(false);
      await leadership.lease.release();
    },
    controllers: makeControllers({
      ...{ context, queues, inStep, sightings, log, metrics },
      reconcileMs: options.reconcileMs,
    }),
  });
  return {
    ...manager,
    ...inventoryOf(stores),
    get warm() {
      return manager.warm;
    },
    get ready() {
      return manager.ready;
    },
    proofs: gate.proofs,
    walls: network.proofs,
  };
}

/** When the Lease is lost, the queues close and `onLost` is called. */
function leadershipOf(options: OperatorOptions, queues: Queues, clock: Clock): Leadership {
  const leadership = new Leadership({
    ...options,
    clock,
    onProblem: (error) => options.log.warn({ err: error }, 'the operator could not take or renew the lead'),
  });
  const { lease } = leadership;
  lease.lost.addEventListener('abort', () => {
    options.metrics.observeLead(false);
    for (const queue of Object.values(queues)) queue.close();
    options.onLost?.(lease.lost.reason);
  });
  return leadership;
}

interface Parts {
  readonly stores: Stores;
  readonly leadership: Leadership;
  readonly gate: Gate;
  readonly network: Network;
  readonly clock: Clock;
}

/** The context of all reconciles; after the loss of the Lease, none of its clients sends anything. */
function makeContext(options: OperatorOptions, { stores, leadership, gate, network, clock }: Parts): Context {
  const { names, log, metrics, holder, wallClock = Date.now } = options;
  const [startedAt, began] = [wallClock(), clock.now()];
  const { lease } = leadership;
  const client = sparingClient(fencedClient(options.client, lease), clock);
  return {
    names,
    get identity() {
      return leadership.identity;
    },
    stores,
    client,
    writer: new Writer({
      client,
      fieldManager: FIELD_MANAGER,
      digestAnnotation: ANNOTATION.applied,
      beforeWrite: metrics.observeWrite,
      onWritten: cacheWriteResults(stores),
    }),
    events: new EventRecorder({
      client,
      clock,
      controller: 'platform.space/operator',
      instance: holder,
      onProblem: (error) => log.warn({ err: error }, 'an Event was not recorded'),
    }),
    database: fenced(options.database, () => lease.check()),
    spaceCa: async () => options.spaceCa?.(),
    databaseCa: async () => options.databaseCa?.(),
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
    network: network.now,
    admission: admissionLook({ client, names }, () => clock.now()),
    now: () => wireTime(new Date(wallClock())),
    clocks: () => ({ own: wallClock(), startedAt, steady: startedAt + clock.now() - began }),
    log,
    databaseUsages: new Usages(() => clock.now()),
    objectUsages: new Usages(() => clock.now()),
    appUsages: new Usages(() => clock.now()),
    selections: new Kept(() => clock.now()),
    fingerprints: new Fingerprints(),
    sweepMs: () => SWEEP_MS * (0.8 + 0.4 * clock.random()),
  };
}

/** Milliseconds since the process started. */
export const sinceStartMs = () => Math.round(performance.now());
