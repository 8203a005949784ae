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
    help: 'Open connections of this replica to the registry.',
    registers,
    collect() {
      this.set(connections());
    },
  });
  return {
    watchSlots: slotMetrics(registers),
    shareRefusals: new Counter({
      name: 'space_objectstore_share_refusals_total',
      help: 'Requests that were refused because their Capsule had used its share or all slots were in use.',
      labelNames: ['resource', 'reason'] as const,
      registers,
    }),
    slowEnded: new Counter({
      name: 'space_objectstore_slow_transfers_ended_total',
      help: 'Transfers of bodies that were ended because they were too slow, at all or while other callers waited.',
      labelNames: ['reason'] as const,
      registers,
    }),
    documentSeconds: new Counter({
      name: 'space_objectstore_document_seconds_total',
      help: 'Processor time spent on documents of callers and of S3 servers, in seconds.',
      registers,
    }),
    dropsPending: new Gauge({
      name: 'space_objectstore_drops_pending',
      help: 'Workloads whose drop has begun and is not complete; their access has already ended.',
      registers,
    }),
    custodyAlarms: new Counter({
      name: 'space_objectstore_custody_alarms_total',
      help: 'Credential rows that the broker did not write, cannot decrypt for lack of their key, or that are older than the anchor in the bucket.',
      labelNames: ['alarm'] as const,
      registers,
    }),
    quotaRefusals: new Counter({
      name: 'space_objectstore_quota_refusals_total',
      help: 'Writes that were refused because their Capsule had used its quota or had as many open uploads as it may have.',
      labelNames: ['limit'] as const,
      registers,
    }),
    doubtedWrites: new Counter({
      name: 'space_objectstore_doubted_writes_total',
      help: 'Writes whose outcome was unknown; their bytes count against the quota until it is certain.',
      registers,
    }),
    uploadsGivenUp: new Counter({
      name: 'space_objectstore_uploads_given_up_total',
      help: 'Multipart uploads that were abandoned because they were not completed within a day.',
      registers,
    }),
    lateParts: new Counter({
      name: 'space_objectstore_late_parts_total',
      help: 'Parts that were refused because they arrived after the end of their upload.',
      registers,
    }),
  };
}

/** The gauges are read at each scrape. */
function slotMetrics(registers: Registry[]): BrokerMetrics['watchSlots'] {
  const watched = new Map<string, Pick<SharedSlots, 'taken' | 'waiting'>>();
  new Gauge({
    name: 'space_objectstore_places',
    help: 'Slots of shared resources that are in use (held), and callers that wait for one (waiting).',
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
