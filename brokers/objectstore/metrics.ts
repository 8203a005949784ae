import { Counter, Gauge, type Registry } from 'prom-client';

/** What the broker counts beside its requests. */
export interface BrokerMetrics {
  readonly dropsPending: Gauge;
  readonly custodyAlarms: Counter<'alarm'>;
}

export function createBrokerMetrics(registry: Registry, connections: () => number): BrokerMetrics {
  const registers = [registry];
  new Gauge({
    name: 'space_objectstore_server_connections',
    help: 'Connections that this replica holds to the registry.',
    registers,
    collect() {
      this.set(connections());
    },
  });
  return {
    dropsPending: new Gauge({
      name: 'space_objectstore_drops_pending',
      help: 'Workloads whose drop was begun and has not ended: access is cut, objects may be left.',
      registers,
    }),
    custodyAlarms: new Counter({
      name: 'space_objectstore_custody_alarms_total',
      help: 'Credential rows that nobody of ours wrote, lack their key, or are older than the bucket remembers.',
      labelNames: ['alarm'] as const,
      registers,
    }),
  };
}
