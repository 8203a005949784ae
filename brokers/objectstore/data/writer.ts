import { ServiceError } from '@space/broker-kit';
import type { Headers, S3Client } from '../upstream/client.ts';
import { S3Error } from '../upstream/errors.ts';
import { type PhysicalKey, physicalKey } from './address.ts';
import type { Hold, Quota } from './quota/allowance.ts';
import type { Call, CopySource, IncomingBody, Place } from './store.ts';

/** The largest body of one request. */
export const MAX_PUT_BYTES = 5 * 1024 ** 3;

/** What every write has in common: its bytes are reserved first, and its source does not change under it. */
export interface Writer {
  /** Reserves before the first byte, and settles by what can have been stored. */
  write<T>(
    call: Call,
    bytes: number,
    act: () => Promise<T>,
    /** Had the body gone out whole? */
    sent: () => boolean,
    stored?: (hold: Hold) => Promise<void> | void,
  ): Promise<T>;
  /** What may be copied: the object as it is now, and no other that takes its name in between. */
  sourceOf(call: Call, from: CopySource): Promise<Source>;
}

interface Source {
  readonly key: PhysicalKey;
  readonly size: number;
  readonly headers: Headers;
}

export function createWriter(client: S3Client, quota: Pick<Quota, 'reserve'>): Writer {
  return {
    write: async ({ tenant }, bytes, act, sent, stored = (hold) => hold.settle()) => {
      if (bytes > MAX_PUT_BYTES) throw new ServiceError('too_large', 'more than one request may bring');
      const hold = await quota.reserve(tenant, bytes);
      try {
        const result = await act();
        await stored(hold);
        return result;
      } catch (error) {
        // Without an answer to a body that went out whole, it may be stored.
        const refused = error instanceof S3Error && error.kind === 'answered' && error.status >= 400;
        if (refused || !sent()) hold.release();
        else hold.settle();
        throw error;
      }
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

export function physicalOf({ tenant }: Call, { bucket, key }: Place): PhysicalKey {
  return physicalKey(tenant.room, bucket, key);
}

/** An empty body is read to its end first: what inspects it may still refuse it. */
export async function sendable(body: IncomingBody): Promise<Buffer | IncomingBody> {
  if (body.length > 0) return body;
  for await (const _chunk of body.stream) throw new ServiceError('invalid_request', 'longer than announced');
  return Buffer.alloc(0);
}
