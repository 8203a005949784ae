import { Counter, Gauge, type Registry } from 'prom-client';

/** What the broker counts beside its requests. */
export interface BrokerMetrics {
  readonly dropsPending: Gauge;
  readonly custodyAlarms: Counter<'alarm'>;
  readonly quotaRefusals: Counter<'limit'>;
  readonly doubtedWrites: Counter;
  readonly uploadsGivenUp: Counter;
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
    quotaRefusals: new Counter({
      name: 'space_objectstore_quota_refusals_total',
      help: 'Writes that were refused since the Capsule has no room left, or as many open uploads as it may have.',
      labelNames: ['limit'] as const,
      registers,
    }),
    doubtedWrites: new Counter({
      name: 'space_objectstore_doubted_writes_total',
      help: 'Writes of which nobody learned whether they are stored; their bytes count until that is certain.',
      registers,
    }),
    uploadsGivenUp: new Counter({
      name: 'space_objectstore_uploads_given_up_total',
      help: 'Uploads in parts that nobody finished in a day.',
      registers,
    }),
  };
}
