import { ServiceError } from '@space/broker-kit';
import { type Quota, UNANSWERED_SECONDS } from '../quota/allowance.ts';
import type { Reservation } from '../quota/capsule-block.ts';
import { DIRECTORY_WENT, S3Error } from '../upstream/errors.ts';
import type { Headers, S3Client } from '../upstream/types.ts';
import { type PhysicalKey, physicalOf } from './object-key.ts';
import type { CopySource, IncomingBody, ObjectCall } from './types.ts';
import { lastTimeOf, STATE } from './whole-states.ts';

/** How often a copy begins. */
const COPY_ATTEMPTS = 5;
/** Milliseconds for finding out what a failed copy has left. */
export const LOOK_MS = 10_000;
/** The largest body of one request. */
export const MAX_PUT_BYTES = 5 * 1024 ** 3;

/** What all writes have in common: bytes are reserved first, and the source of a copy does not change during it. */
export interface Writer {
  /** Bytes of the quota that each object, folder and part costs in addition to its content. */
  readonly entryBytes: number;
  /** Reserves before the first byte is sent, and then settles by what may have been stored. */
  write<T>(call: ObjectCall, charge: Charge, write: Write<T>): Promise<T>;
  /**
   * Copies the present state of an object. If it is replaced meanwhile, the copy begins anew: the caller did not ask for
   * either state.
   */
  copy<T>(call: ObjectCall, from: CopySource, act: (source: Source) => Promise<T>): Promise<T>;
}

interface Write<T> {
  readonly act: (reservation: Reservation, charged: number) => Promise<T>;
  /** Whether the whole body was sent. By default there is none. */
  readonly sent?: () => boolean;
  /** Counts the stored bytes; `doubted` is set if the outcome is unknown. */
  readonly stored?: (reservation: Reservation, charged: number, doubted: number | undefined) => Promise<void>;
}

interface Charge {
  readonly bytes: number;
  readonly entries: number;
}

/** An object to copy as it was found, and the condition that it is still that one. */
export interface Source {
  readonly key: PhysicalKey;
  readonly size: number;
  readonly found: Headers;
  readonly headers: Headers;
}

export interface WriterOptions {
  readonly quota: Pick<Quota, 'reserve'>;
  readonly entryBytes: number;
}

export function createWriter(client: S3Client, { quota, entryBytes }: WriterOptions): Writer {
  return {
    entryBytes,
    write: async ({ tenant, signal }, { bytes, entries }, { act, sent = () => true, stored = settle }) => {
      if (bytes > MAX_PUT_BYTES) throw new ServiceError('too_large', 'more than one request may bring');
      const charged = bytes + entries * entryBytes;
      const reservation = await quota.reserve(tenant, charged);
      let result: Awaited<ReturnType<typeof act>>;
      try {
        result = await act(reservation, charged);
      } catch (error) {
        const doubted = sent() ? doubtOf(error, signal) : undefined;
        if (doubted === undefined) reservation.release();
        else await counted(reservation, () => stored(reservation, charged, doubted), doubted);
        throw error;
      }
      await counted(reservation, () => stored(reservation, charged, undefined), UNANSWERED_SECONDS);
      return result;
    },
    copy: async (call, from, act) => {
      for (let attempt = 1; ; attempt += 1) {
        const source = await sourceOf(client, call, from, entryBytes > 0);
        try {
          if (source !== undefined) return await act(source);
        } catch (error) {
          // Then the next look says that there is none.
          if (!isReplaced(error) && !(await isGone(client, physicalOf(call, from), error))) throw error;
        }
        if (attempt === COPY_ATTEMPTS)
          throw new ServiceError('unavailable', 'the source is being replaced', { retryAfter: 1 });
      }
    },
  };
}

const isReplaced = (error: unknown) => error instanceof S3Error && error.status === 412;

/** Whether a copy has failed since its source was deleted meanwhile, which versitygw answers as a failure of its own. */
export async function isGone(client: S3Client, key: PhysicalKey, error: unknown): Promise<boolean> {
  if (!(error instanceof S3Error && error.kind === 'answered' && error.status === 500)) return false;
  return client.head(key, { signal: AbortSignal.timeout(LOOK_MS) }).then(
    () => false,
    (failed: unknown) => failed instanceof S3Error && failed.status === 404,
  );
}

/**
 * The present state of the object to copy, and no other that replaces it meanwhile; undefined if it was just replaced. If
 * that happens while versitygw looks at it, the answer has the size and time of one state and the entity tag of the next,
 * so that by the tag alone more would be copied than is charged.
 */
async function sourceOf(
  client: S3Client,
  call: ObjectCall,
  from: CopySource,
  isCounted: boolean,
): Promise<Source | undefined> {
  const key = physicalOf(call, from);
  const look = async () => {
    const { status, headers } = await client.head(key, {
      headers: from.conditions ?? {},
      signal: call.signal,
    });
    if (status === 304) throw new ServiceError('precondition_failed', 'condition on the source');
    return headers;
  };
  const found = await look();
  const size = Number(found['content-length'] ?? 0);
  const before = isCounted ? lastTimeOf(found) : undefined;
  if (before !== undefined)
    return { key, size, found, headers: { 'x-amz-copy-source-if-unmodified-since': before } };
  for (let i = 0; isCounted && i < YOUNG_LOOKS; i += 1) {
    const again = await look().catch((error: unknown) => {
      if (!isReplaced(error)) throw error;
    });
    if (STATE.some((name) => again?.[name] !== found[name])) return undefined;
  }
  const { etag } = found;
  return { key, size, found, headers: etag === undefined ? {} : { 'x-amz-copy-source-if-match': etag } };
}

/** Looks at an object that is too young to be told from a later one by its time. */
const YOUNG_LOOKS = 2;

/** An empty body is read to its end first, since its inspection may still refuse it. */
export async function sendable(body: IncomingBody): Promise<Buffer | IncomingBody> {
  if (body.length > 0) return body;
  for await (const _chunk of body.stream) throw new ServiceError('invalid_request', 'longer than announced');
  return Buffer.alloc(0);
}

/** Calls `count`. If the registry is unavailable, the bytes stay reserved as doubted for that time. */
async function counted(reservation: Reservation, count: () => Promise<void>, doubted: number): Promise<void> {
  try {
    await count();
  } catch (error) {
    reservation.doubt(doubted);
    throw error;
  }
}

async function settle(
  reservation: Reservation,
  _charged: number,
  doubted: number | undefined,
): Promise<void> {
  if (doubted === undefined) reservation.settle();
  else reservation.doubt(doubted);
}

/**
 * Seconds for which it is unknown whether a completely sent request was carried out; undefined if it certainly was not. A
 * server that answers 500 or 503 has finished; a proxy may answer while its server has not.
 */
export function doubtOf(error: unknown, signal?: AbortSignal): number | undefined {
  // A refusal of this broker means that the server was not asked, unless it is the reason of an abort.
  if (error instanceof ServiceError && signal?.aborted !== true) return undefined;
  if (error instanceof S3Error && error.isUnsent) return undefined;
  if (!(error instanceof S3Error) || error.kind !== 'answered') return UNANSWERED_SECONDS;
  const { status, code } = error;
  if (code === DIRECTORY_WENT || error.isFull) return undefined;
  // A proxy in front of the server may have sent the time-out.
  if (status >= 400 && status < 500 && status !== 408) return undefined;
  return status === 500 || status === 503 ? 0 : UNANSWERED_SECONDS;
}
