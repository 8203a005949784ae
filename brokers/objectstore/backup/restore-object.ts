import { S3Error } from '../upstream/errors.ts';
import { type Entry, labelOf } from './entry.ts';
import { DamagedContentError, RefusedObjectError, StoringError } from './errors.ts';
import type { Run } from './run.ts';
import type { Bytes } from './sealer.ts';
import { upload } from './uploading.ts';

/** The largest object that S3 accepts in one request. */
const MOST_WHOLE = 5 * 1024 ** 3;

/** Codes for an object that this server cannot store, as another one could; of versitygw, whose keys are paths, for some of them. */
const REFUSED = new Set([
  'EntityTooLarge',
  'EntityTooSmall',
  'ExistingObjectIsDirectory',
  'KeyTooLongError',
  'MetadataTooLarge',
  'ObjectParentIsFile',
  'RequestHeaderSectionTooLarge',
]);
/** Too long are the body, the path or the headers. What stands before a server answers so without any code. */
const REFUSED_STATUS = new Set([413, 414, 431]);

/**
 * Restores an object with its headers and in its original parts, so that it gets its original entity tag.
 * @throws RefusedObjectError if the server takes no such object, and StoringError if it fails otherwise
 */
export async function restoreObject(
  { space, bucket, vault, clock, signal }: Run,
  entry: Entry,
  key: string,
  /** The prefix of records of uploads that are being completed. */
  records: string,
): Promise<void> {
  const { size, headers, content } = entry;
  await vault.readContent(content, signal, async (bytes) => {
    const plain = unlabelled(bytes, labelOf(space, entry), size);
    const parts = partsOf(entry);
    const to = { s3: bucket, clock, signal };
    await upload(to, { key, bytes: plain, length: size, headers, parts, records }).catch((error: unknown) => {
      if (!(error instanceof S3Error)) throw error;
      if (!isRefused(error)) throw new StoringError(error);
      throw new RefusedObjectError(nameOf(error), { cause: error });
    });
  });
}

function isRefused({ kind, status, code }: S3Error): boolean {
  return kind === 'answered' && (REFUSED.has(code) || REFUSED_STATUS.has(status));
}

const nameOf = ({ status, code }: S3Error) => (code === 'Unknown' ? String(status) : code);

function partsOf({ etag, size, part_size }: Entry): number | 'whole' | undefined {
  if (part_size !== undefined && size > 0) return part_size;
  return size <= MOST_WHOLE && !etag.includes('-') ? 'whole' : undefined;
}

/** The bytes after the label. @throws DamagedContentError if the label differs or decryption fails */
async function* unlabelled(bytes: Bytes, label: Buffer, size: number): AsyncGenerator<Uint8Array> {
  let before = Buffer.alloc(0);
  let left = size;
  const source = bytes[Symbol.asyncIterator]();
  const next = () =>
    source.next().catch((error: unknown) => {
      throw new DamagedContentError('a content is damaged or cut short', { cause: error });
    });
  try {
    for (let result = await next(); result.done !== true; result = await next()) {
      let piece = result.value;
      if (before.length < label.length) {
        const taken = piece.subarray(0, label.length - before.length);
        before = Buffer.concat([before, taken]);
        piece = piece.subarray(taken.length);
        if (!label.subarray(0, before.length).equals(before))
          throw new DamagedContentError('a content is in the place of another');
      }
      left -= piece.length;
      if (piece.length > 0) yield piece;
    }
    // Thrown after the last byte but before the end of the stream, so that the server does not store what was sent.
    if (left !== 0 || before.length < label.length)
      throw new DamagedContentError('a content has another length');
  } finally {
    await source.return?.().catch(() => undefined);
  }
}
