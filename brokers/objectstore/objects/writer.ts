import { ServiceError } from '@space/broker-kit';
import { type Quota, UNANSWERED_SECONDS } from '../quota/allowance.ts';
import type { Reservation } from '../quota/capsule-block.ts';
import { DIRECTORY_WENT, S3Error } from '../upstream/errors.ts';
import type { Headers, S3Client } from '../upstream/types.ts';
import { type PhysicalKey, physicalOf } from './object-key.ts';
import type { Call, CopySource, IncomingBody } from './types.ts';

/** The largest body of one request. */
export const MAX_PUT_BYTES = 5 * 1024 ** 3;

/** What every write has in common: its bytes are reserved first, and its source does not change under it. */
export interface Writer {
  /** Each object, folder and part costs this much quota in addition to the bytes. */
  readonly entryBytes: number;
  /** Reserves before the first byte, and settles by what can have been stored. */
  write<T>(
    call: Call,
    charge: Charge,
    act: () => Promise<T>,
    /** Had the body gone out whole? */
    sent: () => boolean,
    /** Where it counts from now on; `doubted` when nobody knows whether it is stored. */
    stored?: (reservation: Reservation, charged: number, doubted: number | undefined) => Promise<void>,
  ): Promise<T>;
  /** What may be copied: the object as it is now, and no other that takes its name in between. */
  sourceOf(call: Call, from: CopySource): Promise<Source>;
}

interface Charge {
  readonly bytes: number;
  readonly entries: number;
}

interface Source {
  readonly key: PhysicalKey;
  readonly size: number;
  readonly headers: Headers;
}

export interface WriterOptions {
  readonly quota: Pick<Quota, 'reserve'>;
  readonly entryBytes: number;
}

export function createWriter(client: S3Client, { quota, entryBytes }: WriterOptions): Writer {
  return {
    entryBytes,
    write: async ({ tenant, signal }, { bytes, entries }, act, sent, stored = settle) => {
      if (bytes > MAX_PUT_BYTES) throw new ServiceError('too_large', 'more than one request may bring');
      const charged = bytes + entries * entryBytes;
      const reservation = await quota.reserve(tenant, charged);
      let result: Awaited<ReturnType<typeof act>>;
      try {
        result = await act();
      } catch (error) {
        // The refusal is ours, unless it is why the request was aborted: nothing was asked of the server.
        const refused = error instanceof ServiceError && !signal.aborted;
        const doubted = refused || !sent() ? undefined : doubtOf(error);
        if (doubted === undefined) reservation.release();
        else await counted(reservation, () => stored(reservation, charged, doubted), doubted);
        throw error;
      }
      await counted(reservation, () => stored(reservation, charged, undefined), UNANSWERED_SECONDS);
      return result;
    },
    sourceOf: async (call, from) => {
      const key = physicalOf(call, from);
      const head = await client.head(key, { headers: from.conditions ?? {}, signal: call.signal });
      if (head.status === 304) throw new ServiceError('precondition_failed', 'condition on the source');
      const etag = head.headers['etag'];
      return {
        key,
        size: Number(head.headers['content-length'] ?? 0),
        headers: etag === undefined ? {} : { 'x-amz-copy-source-if-match': etag },
      };
    },
  };
}

/** An empty body is read to its end first: what inspects it may still refuse it. */
export async function sendable(body: IncomingBody): Promise<Buffer | IncomingBody> {
  if (body.length > 0) return body;
  for await (const _chunk of body.stream) throw new ServiceError('invalid_request', 'longer than announced');
  return Buffer.alloc(0);
}

/** The registry may be away just now: then the bytes stay where they count at least for a while. */
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
 * The time in seconds for which it is unknown whether a completely sent body is stored; undefined if it certainly
 * is not. A server that answers 500 or 503 itself has finished; a proxy may answer for a server that
 * has not.
 */
function doubtOf(error: unknown): number | undefined {
  if (!(error instanceof S3Error) || error.kind !== 'answered') return UNANSWERED_SECONDS;
  const { status, code } = error;
  if (code === DIRECTORY_WENT) return undefined;
  // A time-out may be that of whoever stands before the server.
  if (status >= 400 && status < 500 && status !== 408) return undefined;
  return status === 500 || status === 503 ? 0 : UNANSWERED_SECONDS;
}
