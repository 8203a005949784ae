import { randomBytes } from 'node:crypto';
import type { Logger, Resolve, ServiceMetrics, ShareRefusal } from '@space/broker-kit';
import { type AddressGuard, dialler, Turns } from '@space/broker-kit';
import { passedWith } from './core/headers.ts';
import type { Custody } from './custody.ts';
import { createBudget } from './data/budget.ts';
import { Calls } from './data/calls.ts';
import { ConnectionShares } from './data/connection-shares.ts';
import type { ScrubberSource } from './data/input-sender.ts';
import { serveInput } from './data/inputs.ts';
import { type DataLimits, DEFAULT_LIMITS } from './data/limits.ts';
import { type DataListener, listenForCallers } from './data/listener.ts';
import { recorder } from './data/record.ts';
import { Reflections } from './data/reflections.ts';
import { Scrubbers } from './data/scrubbers.ts';
import { serveTunnel } from './data/tunnel.ts';
import { createUpstreams, type Upstreams } from './data/upstreams.ts';
import { createUsage } from './data/usage.ts';
import {
  createEgressMetrics,
  type Operation,
  type SharedResource,
  type TurnedAwayReason,
} from './metrics.ts';
import { Policies } from './policies/policies.ts';
import { Strangers } from './policies/strangers.ts';

/** Milliseconds for answers, their preparation, tunnels and bodies before new events are handled. */
const ANSWERS_MS = 0.4;

export interface GatewayOptions {
  readonly host: string | undefined;
  readonly port: number;
  readonly custody: Custody;
  readonly resolve: Resolve;
  readonly guard: AddressGuard;
  readonly names: readonly string[];
  /** Names in lower case of headers that are passed on with stored inputs, in addition to the known ones. */
  readonly requestHeaders?: readonly string[];
  readonly authorities?: string | undefined;
  readonly limits?: Partial<DataLimits>;
  readonly metrics: ServiceMetrics;
  readonly log: Logger;
  readonly now?: () => number;
  /** Absent only in a benchmark that measures its cost; no setting can remove it. */
  readonly scrubbers?: ScrubberSource;
}

/** The part of a replica that serves callers. */
export interface Gateway {
  readonly instance: string;
  readonly policies: Policies;
  readonly reflections: Reflections;
  readonly calls: Calls;
  readonly listener: DataListener;
  readonly upstreams: Upstreams;
}

/** Wires policies, connections to hosts, and the listener for callers. */
export async function startGateway(options: GatewayOptions): Promise<Gateway> {
  const limits = { ...DEFAULT_LIMITS, ...options.limits };
  const policies = new Policies(options.custody);
  const metrics = createEgressMetrics(options.metrics.registry, () => ({
    policies: policies.size,
    connections: shares.open,
    waiting: strangers.waiting,
    inStep: policies.inStep,
  }));
  const dial = dialler({ resolve: options.resolve, guard: options.guard, connectMs: limits.connectMs });
  const upstreams = createUpstreams({ dialler: dial, limits, authorities: options.authorities });
  const onTurnedAway = (reason: TurnedAwayReason) => metrics.turnedAway.inc({ reason });
  const refused = (resource: SharedResource, reason: ShareRefusal) =>
    metrics.shareRefused.inc({ resource, reason });
  const usage = createUsage(limits, refused, () => onTurnedAway('refusals'));
  const stalls = createBudget(limits.stalledBytes, () => refused('stalledBytes', 'full'));
  const strangers = new Strangers(policies, limits, onTurnedAway);
  const shares = new ConnectionShares(policies, limits, onTurnedAway);
  const reflections = new Reflections(limits.reflections, () => metrics.reflections.inc());
  const now = options.now ?? Date.now;
  const calls = new Calls(now);
  const record = recorder(options.log, metrics, calls);
  const turns = new Turns({ sliceMs: ANSWERS_MS });
  const counted = (operation: Operation) => (change: 1 | -1) => {
    metrics.open[operation] += change;
  };
  const listener = await listenForCallers({
    host: options.host,
    port: options.port,
    headMs: limits.headMs,
    shares,
    strangers,
    onPipelined: () => onTurnedAway('pipelined'),
    log: options.log,
    onConnect: serveTunnel({
      policies,
      strangers,
      shares,
      dialler: dial,
      limits,
      usage,
      stalls,
      turns,
      record,
      onOpen: counted('connect'),
    }),
    onRequest: serveInput({
      policies,
      strangers,
      shares,
      custody: options.custody,
      upstreams,
      limits,
      usage,
      stalls,
      record,
      onOpen: counted('input'),
      names: new Set(options.names),
      passes: passedWith(options.requestHeaders ?? []),
      now,
      scrubbers: options.scrubbers ?? new Scrubbers(turns),
      reflections,
      turns,
    }),
  });
  return { instance: randomBytes(16).toString('hex'), policies, reflections, calls, listener, upstreams };
}
