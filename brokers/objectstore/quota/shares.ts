import { SharedSlots, type ShareRefusal, Turns } from '@space/broker-kit';
import type { Counter } from 'prom-client';

/** What Capsules share in this process, and how much of it one of them may have. A Capsule is named by its prefix. */
export interface Shares {
  /** Requests at one time; each holds at most one connection to the Space's bucket, so nobody waits for one. */
  readonly slots: SharedSlots;
  /** Requests at one time for buckets of Capsules' own. */
  readonly elsewhere: SharedSlots;
  /** Documents over 16 KiB that come in. */
  readonly documents: SharedSlots;
  /** Lists that come from Capsules' own buckets. */
  readonly lists: SharedSlots;
  /** Look-ups in the registry of many rows: those who are let in by it have other connections left. */
  readonly records: SharedSlots;
  /** Turns of the processor, for documents in both directions. */
  readonly turns: Turns;
  /** Turns of the processor, for passing on the bodies of answers: as much as nobody else wants. */
  readonly passing: Turns;
}

/** A Capsule may hold a quarter of what is free beside what it holds, which is a fifth of both together. */
const OF_FREE = 1 / 4;
/** In progress, a document takes some MiB at most. */
const DOCUMENTS = { total: 32, perKey: 2, queued: 512, queuedPerKey: 64 };
/** How many of the four connections for look-ups serve such lists. */
const RECORDS = { total: 2, perKey: 1, queued: 512, queuedPerKey: 64 };
/** After so much time with bodies of answers, everything else comes first: a request has several such rounds to wait for. */
const PASSING_MS = 0.5;
/** Seconds of its share that a Capsule may have saved up. */
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
  /** Shows how many slots of a resource are held, and how many wait. */
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
