import { type Entry, labelOf } from './entry.ts';
import { DamagedContentError } from './errors.ts';
import type { Run } from './run.ts';
import type { Bytes } from './sealer.ts';
import { upload } from './uploading.ts';

/** The most that S3 takes in one request. */
const MOST_WHOLE = 5 * 1024 ** 3;

/** Puts an object back with its headers, and in the parts that it had, so that it gets the entity tag that it had. */
export async function restoreObject(
  { space, bucket, vault, signal }: Run,
  entry: Entry,
  key: string,
): Promise<void> {
  const { size, headers, content } = entry;
  await vault.read({ kind: 'objects', name: content }, signal, async (bytes) => {
    const plain = unlabelled(bytes, labelOf(space, entry), size);
    await upload(bucket, { key, bytes: plain, length: size, headers, parts: partsOf(entry), signal });
  });
}

function partsOf({ etag, size, part_size }: Entry): number | 'whole' | undefined {
  if (part_size !== undefined && size > 0) return part_size;
  return size <= MOST_WHOLE && !etag.includes('-') ? 'whole' : undefined;
}

/** What follows the label. @throws DamagedContentError where the label is another, or anything does not open */
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
    // Thrown behind the last byte, and before the end: what was sent so far is then not stored.
    if (left !== 0 || before.length < label.length)
      throw new DamagedContentError('a content has another length');
  } finally {
    await source.return?.().catch(() => undefined);
  }
}
