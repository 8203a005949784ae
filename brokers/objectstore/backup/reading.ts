import { Transform, type TransformCallback } from 'node:stream';
import { S3Error } from '../upstream/errors.ts';
import type { Head } from '../upstream/relay.ts';
import type { Headers, S3Client } from '../upstream/types.ts';

/** Passes pieces of an answer's body to another reader. They are copied, since the sender frees them. */
class Handover extends Transform {
  override _transform(piece: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    done(null, Buffer.from(piece));
  }
}

/** Ends a download because its reader has ended, so that this is not taken for an error of the server. */
class StoppedReading extends Error {}

interface ReadingOptions {
  readonly headers?: Headers;
  readonly signal: AbortSignal;
}

/**
 * Lets `use` read an object's body while it arrives. If `use` returns before the end, the rest is not fetched. An error
 * of `use` is thrown; but if the download failed first, its S3Error is thrown.
 */
export async function reading<T>(
  s3: Pick<S3Client, 'get'>,
  key: string,
  options: ReadingOptions,
  use: (head: Head, body: AsyncIterable<Buffer>) => Promise<T>,
): Promise<T> {
  let used: Promise<T> | undefined;
  const failure = await s3
    .get(key, options, (head) => {
      const body = new Handover();
      const stop = () => void body.destroy(new StoppedReading());
      // The iterator does not destroy the stream when it is left early, since that error would pass for the server's.
      used = use(head, body.iterator({ destroyOnReturn: false }));
      used.then(stop, stop);
      return body;
    })
    .then(
      () => undefined,
      (error: unknown) => ({ error }),
    );
  if (used === undefined) throw failure?.error;
  if (failure === undefined || isStopped(failure.error)) return used;
  await used.catch(() => undefined);
  throw failure.error;
}

function isStopped(error: unknown): boolean {
  return (
    error instanceof StoppedReading || (error instanceof S3Error && error.cause instanceof StoppedReading)
  );
}
