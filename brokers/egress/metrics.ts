import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

export type Operation = 'connect' | 'input';

/** What the gateway counts. Plain numbers are taken up when somebody looks, as each request changes them often. */
export interface EgressMetrics {
  readonly finished: Histogram<'operation' | 'code'>;
  /** Since somebody looked. */
  readonly bytes: Readonly<Record<Operation, { out: number; in: number }>>;
  /** Now. */
  readonly open: Record<Operation, number>;
}

export function createEgressMetrics(registry: Registry, policies: () => number): EgressMetrics {
  const registers = [registry];
  new Gauge({
    name: 'space_egress_policies',
    help: 'Assistants whose policy this replica has.',
    registers,
    collect() {
      this.set(policies());
    },
  });
  const bytes = { connect: { out: 0, in: 0 }, input: { out: 0, in: 0 } };
  const open = { connect: 0, input: 0 };
  new Counter({
    name: 'space_egress_bytes_total',
    help: 'Bytes that left for hosts outside (out) and that came back (in).',
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
    help: 'Tunnels and injected requests that are open now.',
    labelNames: ['operation'] as const,
    registers,
    collect() {
      for (const [operation, count] of Object.entries(open)) this.set({ operation }, count);
    },
  });
  const finished = new Histogram({
    name: 'space_egress_seconds',
    help: 'Duration of tunnels and injected requests, by how they ended.',
    labelNames: ['operation', 'code'] as const,
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5, 30, 300],
    registers,
  });
  return { finished, bytes, open };
}
