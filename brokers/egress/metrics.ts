import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

export type Operation = 'connect' | 'input';

/** Why a connection was closed without an answer and without a log line. */
export type TurnedAwayReason =
  /** A request arrived before the previous one was answered. */
  | 'pipelined'
  /** An address, or a Capsule, has used its share of connections. */
  | 'connections_address'
  | 'connections_capsule'
  | 'connections_full'
  /** Too many callers of one address, or in all, wait for a policy. */
  | 'waiting'
  /** An address, or a Capsule, was refused too often. */
  | 'refusals';

/** A resource of which each Capsule has a share. */
export type SharedResource = 'tunnels' | 'requests' | 'signedBytes' | 'stalledBytes';

/** The gateway's metrics. Plain numbers are read at each scrape, as each request changes them often. */
export interface EgressMetrics {
  readonly finished: Histogram<'operation' | 'code'>;
  /** Bytes since the last scrape. */
  readonly bytes: Readonly<Record<Operation, { out: number; in: number }>>;
  readonly turnedAway: Counter<'reason'>;
  /** The reason is 429 if a Capsule has used its share, and 503 if all slots are in use. */
  readonly shareRefused: Counter<'resource' | 'reason'>;
  /** What is open now, by operation. */
  readonly open: Record<Operation, number>;
  /** Answers in which a host returned the value of a stored input. */
  readonly reflections: Counter;
}

/** The state at the time of a scrape. */
export interface EgressState {
  readonly policies: number;
  /** The number of callers' connections. */
  readonly connections: number;
  /** Callers that wait for a policy. */
  readonly waiting: number;
  /** Whether the replica has received the policies of all Assistants. */
  readonly inStep: boolean;
}

export function createEgressMetrics(registry: Registry, state: () => EgressState): EgressMetrics {
  const registers = [registry];
  stateMetrics(registers, state);
  const bytes = { connect: { out: 0, in: 0 }, input: { out: 0, in: 0 } };
  const open = { connect: 0, input: 0 };
  new Counter({
    name: 'space_egress_bytes_total',
    help: 'Bytes that were sent to hosts outside (out) and received from them (in).',
    labelNames: ['operation', 'direction'] as const,
    registers,
    collect() {
      for (const [operation, passed] of Object.entries(bytes))
        for (const direction of ['out', 'in'] as const) {
          this.inc({ operation, direction }, passed[direction]);
          passed[direction] = 0;
        }
    },
  });
  new Gauge({
    name: 'space_egress_open',
    help: 'Open tunnels and requests with a stored input.',
    labelNames: ['operation'] as const,
    registers,
    collect() {
      for (const [operation, count] of Object.entries(open)) this.set({ operation }, count);
    },
  });
  const finished = new Histogram({
    name: 'space_egress_seconds',
    help: 'Duration of tunnels and of requests with a stored input, by result, in seconds.',
    labelNames: ['operation', 'code'] as const,
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5, 30, 300],
    registers,
  });
  const turnedAway = new Counter({
    name: 'space_egress_turned_away_total',
    help: 'Connections that were closed without an answer, by reason.',
    labelNames: ['reason'] as const,
    registers,
  });
  const shareRefused = new Counter({
    name: 'space_egress_share_refused_total',
    help: 'Tunnels, requests and bodies to sign that were refused because their Capsule has used its share or all slots are in use; and those that were closed because their receivers read nothing and the memory for such data is full (stalledBytes).',
    labelNames: ['resource', 'reason'] as const,
    registers,
  });
  const reflections = new Counter({
    name: 'space_egress_reflections_total',
    help: 'Answers of a host that contained the value of a stored input, which was replaced by stars.',
    registers,
  });
  return { finished, bytes, turnedAway, shareRefused, open, reflections };
}

/** Registers metrics that are read at each scrape. */
function stateMetrics(registers: Registry[], state: () => EgressState): void {
  const gauge = (name: string, help: string, read: (now: EgressState) => number) =>
    new Gauge({
      name,
      help,
      registers,
      collect() {
        this.set(read(state()));
      },
    });
  gauge('space_egress_policies', 'Assistants whose policy this replica has.', ({ policies }) => policies);
  gauge('space_egress_connections', 'Open connections of callers.', ({ connections }) => connections);
  gauge('space_egress_waiting', 'Callers that wait for a policy or for a refusal.', ({ waiting }) => waiting);
  gauge(
    'space_egress_in_step',
    '1 if this replica has received the policies of all Assistants; 0 while it asks unknown callers to retry.',
    ({ inStep }) => Number(inStep),
  );
}
