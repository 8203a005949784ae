import { S3Error } from '../upstream/errors.ts';
import type { Head } from '../upstream/relay.ts';
import type { ListedObject, S3Client } from '../upstream/types.ts';
import { BackupError } from './errors.ts';
import { type Clock, retrying } from './retrying.ts';

/** A bucket, and what is needed to repeat requests to it. */
export interface Source<S extends Partial<S3Client> = Pick<S3Client, 'list' | 'read'>> {
  readonly s3: S;
  readonly clock: Pick<Clock, 'pause'>;
  readonly signal: AbortSignal;
}

const PAGE = 1_000;

/** All objects with a prefix, or those after a key. Each page is requested when it is needed, and repeated if that fails. */
export async function* listed(
  { s3, clock, signal }: Source<Pick<S3Client, 'list'>>,
  prefix: string,
  after?: string,
): AsyncGenerator<ListedObject> {
  let token: string | undefined;
  do {
    const query = { prefix, token, after: token === undefined ? after : undefined, limit: PAGE };
    const page = await retrying(clock, signal, () => s3.list(query, { signal }));
    yield* page.objects;
    token = page.next;
  } while (token !== undefined);
}

/** The first piece is small, since often only the beginning is wanted. */
const FIRST_BYTES = 128 * 1024;
const PIECE_BYTES = 4 * 1024 * 1024;

/**
 * An object's bytes. Each piece is requested when it is needed, and repeated if that fails: the reader may take hours between two
 * of them, for which no server keeps a connection.
 */
export async function* pieces({ s3, clock, signal }: Source, key: string): AsyncGenerator<Uint8Array> {
  let etag: string | undefined;
  let from = 0;
  for (let total = 1, length = FIRST_BYTES; from < total; length = PIECE_BYTES) {
    const range = `bytes=${from}-${from + length - 1}`;
    const headers = { range, ...(etag === undefined ? {} : { 'if-match': etag }) };
    const { body, ...head } = await retrying(clock, signal, () =>
      s3.read(key, length, { headers, signal }),
    ).catch((error: unknown) => {
      if (from === 0 && error instanceof S3Error && error.status === 416) return EMPTY;
      throw error;
    });
    total = totalOf(head, from, body.length);
    etag = head.headers['etag'];
    from += body.length;
    if (body.length > 0) yield body;
  }
}

const EMPTY: Head & { readonly body: Buffer } = { status: 200, headers: {}, body: Buffer.alloc(0) };

/** The length of the object according to an answer that has `length` bytes of it from `from` on. */
function totalOf(
  { status, headers }: Pick<Head, 'status' | 'headers'>,
  from: number,
  length: number,
): number {
  if (status === 200 && from === 0) return length;
  const [, start, total] = /^bytes (\d+)-\d+\/(\d+)$/.exec(headers['content-range'] ?? '') ?? [];
  if (Number(start) !== from || length === 0)
    throw new BackupError("the backup's server does not answer requests for a range of bytes as S3 does");
  return Number(total);
}
