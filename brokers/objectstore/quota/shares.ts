import { SharedPlaces, type ShareRefusal, Turns } from '@space/broker-kit';
import type { Counter } from 'prom-client';

/** What Capsules share in this process, and how much of it one of them may have. Keys are the Capsules' places. */
export interface Shares {
  /** Requests at one time; each holds at most one connection to the Space's bucket, so nobody waits for one. */
  readonly places: SharedPlaces;
  /** The same, of requests for buckets of Capsules' own. */
  readonly elsewhere: SharedPlaces;
  /** Documents over 16 KiB that come in. */
  readonly documents: SharedPlaces;
  /** Lists that come from Capsules' own buckets. */
  readonly lists: SharedPlaces;
  /** Look-ups in the registry of many rows: those who are let in by it have other connections left. */
  readonly records: SharedPlaces;
  /** Of the processor, for documents in both directions. */
  readonly turns: Turns;
  /** Of the processor, for passing on the bodies of answers: as much as nobody else wants. */
  readonly passing: Turns;
}

/** Whoever comes takes at most a fifth of what is free. */
const OF_FREE = 1 / 4;
/** In progress, a document takes some MiB at most. */
const DOCUMENTS = { total: 32, perKey: 2, queued: 512, queuedPerKey: 64 };
/** Of the four connections for look-ups. */
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
  readonly watchPlaces: (resource: string, places: Pick<SharedPlaces, 'taken' | 'waiting'>) => void;
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
  const placesOf = (resource: string, options: ConstructorParameters<typeof SharedPlaces>[0]) => {
    const refused = (reason: ShareRefusal) => metrics.shareRefusals.inc({ resource, reason });
    const places = new SharedPlaces(options, refused);
    metrics.watchPlaces(resource, places);
    return places;
  };
  return {
    places: placesOf('objects', requests),
    elsewhere: placesOf('own-buckets', requests),
    documents: placesOf('documents', { ...DOCUMENTS, waitMs }),
    lists: placesOf('own-lists', { ...DOCUMENTS, waitMs }),
    records: placesOf('records', { ...RECORDS, waitMs }),
    passing: new Turns({ sliceMs: PASSING_MS }),
    turns: new Turns({
      perSecondMs: config.DOCUMENT_MS_PER_SECOND,
      burstMs: SAVED_SECONDS * config.DOCUMENT_MS_PER_SECOND,
      onWork: (ms) => metrics.documentSeconds.inc(ms / 1_000),
      onRefusal: () => metrics.shareRefusals.inc({ resource: 'processor', reason: 'share' }),
    }),
  };
}
