import type { SharedSlots } from '@space/broker-kit';
import { Counter, Gauge, type Registry } from 'prom-client';

/** The broker's metrics beside those of its requests. */
export interface BrokerMetrics {
  readonly dropsPending: Gauge;
  readonly custodyAlarms: Counter<'alarm'>;
  readonly quotaRefusals: Counter<'limit'>;
  readonly doubtedWrites: Counter;
  readonly uploadsGivenUp: Counter;
  readonly lateParts: Counter;
  readonly shareRefusals: Counter<'resource' | 'reason'>;
  readonly slowEnded: Counter<'reason'>;
  readonly documentSeconds: Counter;
  /** Adds gauges of how many slots of a resource are used, and how many callers wait. */
  readonly watchSlots: (resource: string, slots: Pick<SharedSlots, 'taken' | 'waiting'>) => void;
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
    watchSlots: slotMetrics(registers),
    shareRefusals: new Counter({
      name: 'space_objectstore_share_refusals_total',
      help: 'Requests that were turned away because a Capsule had its share, or because all places were taken.',
      labelNames: ['resource', 'reason'] as const,
      registers,
    }),
    slowEnded: new Counter({
      name: 'space_objectstore_slow_transfers_ended_total',
      help: 'Bodies that were cut because their caller moved too little, at all or while others waited.',
      labelNames: ['reason'] as const,
      registers,
    }),
    documentSeconds: new Counter({
      name: 'space_objectstore_document_seconds_total',
      help: 'Processor time for documents of callers and of S3 servers.',
      registers,
    }),
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
    lateParts: new Counter({
      name: 'space_objectstore_late_parts_total',
      help: 'Parts that came when their upload had ended, and were refused.',
      registers,
    }),
  };
}

/** The gauges are read at each scrape. */
function slotMetrics(registers: Registry[]): BrokerMetrics['watchSlots'] {
  const watched = new Map<string, Pick<SharedSlots, 'taken' | 'waiting'>>();
  new Gauge({
    name: 'space_objectstore_places',
    help: 'Places of what Capsules share that are held, and callers who wait for one.',
    labelNames: ['resource', 'state'] as const,
    registers,
    collect() {
      for (const [resource, { taken, waiting }] of watched) {
        this.set({ resource, state: 'held' }, taken);
        this.set({ resource, state: 'waiting' }, waiting);
      }
    },
  });
  return (resource, slots) => void watched.set(resource, slots);
}
