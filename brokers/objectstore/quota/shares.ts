import { SharedSlots, type ShareRefusal, Turns } from '@space/broker-kit';
import type { Counter } from 'prom-client';
import type { Passing } from '../upstream/relay.ts';

/** What Capsules share in this process, and how much of it one Capsule may have. The key is the Capsule's prefix. */
export interface Shares {
  /** Requests at the same time; each uses at most one connection to the Space's bucket, so that none waits for one. */
  readonly slots: SharedSlots;
  /** Requests at the same time to Capsules' own buckets. */
  readonly elsewhere: SharedSlots;
  /** Documents over 16 KiB that are being received. */
  readonly documents: SharedSlots;
  /** Lists from Capsules' own buckets. */
  readonly lists: SharedSlots;
  /** Look-ups of many rows in the registry; admission of requests has other connections. */
  readonly records: SharedSlots;
  /** Turns with the processor for documents in both directions. */
  readonly turns: Turns;
  /** Turns with the processor for long bodies: they get the time that nobody else needs. */
  readonly passing: Turns;
}

interface PassingShares extends Pick<Shares, 'passing'> {
  readonly slots: Pick<SharedSlots, 'hasOther'>;
  readonly elsewhere: Pick<SharedSlots, 'hasOther'>;
}

/**
 * Milliseconds for which a Capsule counts after its last request. Its next one finds others' bodies in turns; without turns, each
 * connection with a body at full speed takes several milliseconds of every round of the event loop.
 */
const REMEMBERED_MS = 10_000;

/** How long bodies from and to a Capsule are passed on. */
export const passingFor = ({ slots, elsewhere, passing }: PassingShares, capsulePrefix: string): Passing => ({
  isShared: () =>
    slots.hasOther(capsulePrefix, REMEMBERED_MS) || elsewhere.hasOther(capsulePrefix, REMEMBERED_MS),
  inTurn: (act, owedMs) => passing.run(capsulePrefix, act, owedMs),
});

/** A Capsule may have a quarter of what is free in addition to what it has, which is a fifth of both together. */
const OF_FREE = 1 / 4;
/** A document that is being received takes a few MiB at most. */
const DOCUMENTS = { total: 32, perKey: 2, queued: 512, queuedPerKey: 64 };
/** The number of the four look-up connections that serve such lists. */
const RECORDS = { total: 2, perKey: 1, queued: 512, queuedPerKey: 64 };
/** Milliseconds with long bodies before other work comes first; a request waits for several such rounds. */
const PASSING_MS = 0.5;
/** Seconds of its share that a Capsule can save up. */
const SAVED_SECONDS = 20;

/** The settings, as in the environment. */
interface ShareSettings {
  readonly OBJECT_CONNECTIONS: number;
  readonly OBJECT_STREAMS: number;
  readonly OBJECT_QUEUE_SECONDS: number;
  readonly DOCUMENT_MS_PER_SECOND: number;
}

interface ShareMetrics {
  readonly shareRefusals: Counter<'resource' | 'reason'>;
  readonly documentSeconds: Counter;
  /** Adds gauges of how many slots of a resource are used, and how many callers wait. */
  readonly watchSlots: (resource: string, slots: Pick<SharedSlots, 'taken' | 'waiting'>) => void;
}

export function createShares(config: ShareSettings, metrics: ShareMetrics): Shares {
  const waitMs = config.OBJECT_QUEUE_SECONDS * 1_000;
  const total = config.OBJECT_CONNECTIONS;
  const requests = {
    total,
    perKey: Math.min(total, config.OBJECT_STREAMS),
    ofFree: OF_FREE,
    queued: 4 * total,
    waitMs,
  };
  const slotsOf = (resource: string, options: ConstructorParameters<typeof SharedSlots>[0]) => {
    const refused = (reason: ShareRefusal) => metrics.shareRefusals.inc({ resource, reason });
    const slots = new SharedSlots(options, refused);
    metrics.watchSlots(resource, slots);
    return slots;
  };
  return {
    slots: slotsOf('objects', requests),
    elsewhere: slotsOf('own-buckets', requests),
    documents: slotsOf('documents', { ...DOCUMENTS, waitMs }),
    lists: slotsOf('own-lists', { ...DOCUMENTS, waitMs }),
    records: slotsOf('records', { ...RECORDS, waitMs }),
    passing: new Turns({ sliceMs: PASSING_MS }),
    turns: new Turns({
      perSecondMs: config.DOCUMENT_MS_PER_SECOND,
      burstMs: SAVED_SECONDS * config.DOCUMENT_MS_PER_SECOND,
      onWork: (ms) => metrics.documentSeconds.inc(ms / 1_000),
      onRefusal: () => metrics.shareRefusals.inc({ resource: 'processor', reason: 'share' }),
    }),
  };
}
