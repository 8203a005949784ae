import { SharedSlots } from '@space/broker-kit';
import type { S3Client } from './types.ts';

/**
 * Lists at the same time, of one Capsule and of all. For each page versitygw reads all names of a folder: 65,000 long
 * ones, as many objects as a Capsule may have by default, are some 30 MiB of its memory, and 10,000 parts of an upload 3.
 * Two replicas with as many lists fit into the memory that it has.
 */
const SLOTS = { total: 3, perKey: 2, queued: 256, waitMs: 20_000 };
/** Of a page at the server. */
const LIST_MS = 60_000;
/** `c/` and 40 digits: the prefix of a Capsule. */
const CAPSULE_PREFIX_LENGTH = 42;

/**
 * Makes clients of the Space's own S3 server, which together list for few callers at a time. What one of them lists for a
 * Capsule does not wait behind what others list for it.
 */
export function listingFew(): (client: S3Client, purpose: string) => S3Client {
  const slots = new SharedSlots(SLOTS);

  async function inSlot<T>(
    who: string,
    signal: AbortSignal | undefined,
    ask: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const release = await slots.take(who, signal);
    // The server reads on when nobody waits for its answer any more, so the slot is not free before that has come.
    const page = ask(AbortSignal.timeout(LIST_MS)).finally(release);
    return signal === undefined ? page : Promise.race([page, aborted(signal, page)]);
  }

  return (client, purpose) => {
    const whoOf = (key: string) => `${purpose} ${key.slice(0, CAPSULE_PREFIX_LENGTH)}`;
    return {
      ...client,
      list: (query, { signal, ...options } = {}) =>
        inSlot(whoOf(query.prefix), signal, (late) => client.list(query, { ...options, signal: late })),
      listParts: (key, upload, page, { signal, ...options } = {}) =>
        inSlot(whoOf(key), signal, (late) =>
          client.listParts(key, upload, page, { ...options, signal: late }),
        ),
    };
  };
}

/** Rejects when the signal aborts, unless the work ends first. */
function aborted(signal: AbortSignal, work: Promise<unknown>): Promise<never> {
  const { promise, reject } = Promise.withResolvers<never>();
  const abort = () => reject(signal.reason);
  signal.addEventListener('abort', abort, { once: true });
  const end = () => signal.removeEventListener('abort', abort);
  work.then(end, end);
  if (signal.aborted) abort();
  return promise;
}
