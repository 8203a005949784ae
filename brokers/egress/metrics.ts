import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

/** What the gateway counts. */
export interface EgressMetrics {
  readonly finished: Histogram<'operation' | 'code'>;
  readonly bytes: Counter<'operation' | 'direction'>;
  readonly open: Gauge<'operation'>;
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
  return {
    finished: new Histogram({
      name: 'space_egress_seconds',
      help: 'Duration of tunnels and injected requests, by how they ended.',
      labelNames: ['operation', 'code'] as const,
      buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5, 30, 300],
      registers,
    }),
    bytes: new Counter({
      name: 'space_egress_bytes_total',
      help: 'Bytes that left for hosts outside (out) and that came back (in).',
      labelNames: ['operation', 'direction'] as const,
      registers,
    }),
    open: new Gauge({
      name: 'space_egress_open',
      help: 'Tunnels and injected requests that are open now.',
      labelNames: ['operation'] as const,
      registers,
    }),
  };
}
