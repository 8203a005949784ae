import { Transform, type TransformCallback } from 'node:stream';
import { S3Error } from '../upstream/errors.ts';
import type { Head } from '../upstream/relay.ts';
import type { Headers, S3Client } from '../upstream/types.ts';

/** The pieces of an answer's body on their way to another reader; copies, since who sends them frees them. */
class Handover extends Transform {
  override _transform(piece: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    done(null, Buffer.from(piece));
  }
}

/** Ends a download because of its reader, so that the reader's own error can be told from the server's. */
class StoppedReading extends Error {}

interface ReadingOptions {
  readonly headers?: Headers;
  readonly signal: AbortSignal;
}

/**
 * Has `use` read an object's body as it comes. When it returns before the end, the rest is not fetched. What it throws is
 * thrown; but where the download failed, and the reader only therefore, the download's S3Error is.
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
      // Left early it is not destroyed by its iterator, whose error would pass for the server's.
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
