import type { S3Error } from '../upstream/errors.ts';
import type { ListedObject } from '../upstream/types.ts';
import type { Chosen } from './choose.ts';
import type { Entry } from './entry.ts';
import { BackupError, DamagedContentError, RefusedObjectError, StoringError } from './errors.ts';
import type { NameTable } from './name-table.ts';
import { restoreObject } from './restore-object.ts';
import { retrying } from './retrying.ts';
import { CAPSULES, type Run } from './run.ts';
import { several } from './several.ts';
import type { Vault } from './vault.ts';

interface Bringing {
  /** The objects that the bucket has already, by `stateName`. */
  readonly there: Pick<NameTable, 'has'>;
  /** Returns the key under which an entry is restored. */
  readonly keyOf: (entry: Entry) => string;
  /** The prefix of records of uploads that are being completed. */
  readonly records: string;
  /** What a person can do about what is not restored, as a sentence. */
  readonly otherwise: string;
}

/** More objects with which the server fails are not left out: then it is the server that is broken. */
const MOST_FAILED = 20;

/**
 * Restores all entries that are missing from the bucket; returns how many were present. A damaged content, or an object that the
 * server does not take, does not prevent the others, but at the end it makes the restore fail: one Capsule could prevent that of all
 * with an object that only the server of before could store. The same holds for some objects of Capsules with which it fails again
 * and again.
 */
export async function bringBack(
  run: Run,
  { anchors, others }: Chosen<Entry>,
  { there, keyOf, records, otherwise }: Bringing,
): Promise<number> {
  const { vault, clock, signal, atOnce } = run;
  const damaged: Left<DamagedContentError> = { count: 0, first: undefined };
  const refused: Left<RefusedObjectError> = { count: 0, first: undefined };
  const failed: Left<S3Error> = { count: 0, first: undefined };
  let skipped = 0;
  const one = async (entry: Entry, either: AbortSignal) => {
    const key = keyOf(entry);
    if (there.has(stateName(vault, { ...entry, key }))) {
      skipped += 1;
      return;
    }
    try {
      await retrying(clock, either, () => restoreObject({ ...run, signal: either }, entry, key, records));
    } catch (error) {
      if (error instanceof RefusedObjectError) leave(refused, key, error);
      else if (error instanceof DamagedContentError) leave(damaged, entry.key, error);
      else if (!(error instanceof StoringError)) throw error;
      else if (mayBeOfObject(key, error) && failed.count < MOST_FAILED) leave(failed, key, error.cause);
      else throw error.cause;
    }
  };
  // Records about answers that were given are restored before anything else.
  await several(anchors(), atOnce, signal, one);
  await several(others(), atOnce, signal, one);
  requireAll({ damaged, refused, failed }, otherwise);
  return skipped;
}

/** Whether the server may have failed because of this object: it says no other reason, be it its own or of what stands before it. */
function mayBeOfObject(key: string, { kind, status, code }: StoringError): boolean {
  if (kind !== 'answered' || !key.startsWith(CAPSULES)) return false;
  return status === 500 || (status === 400 && code === 'Unknown');
}

/** Objects that are not restored for one reason. */
interface Left<E extends Error> {
  count: number;
  first: { readonly key: string; readonly error: E } | undefined;
}

function leave<E extends Error>(left: Left<E>, key: string, error: E): void {
  left.count += 1;
  left.first ??= { key, error };
}

interface LeftOut {
  readonly damaged: Left<DamagedContentError>;
  readonly refused: Left<RefusedObjectError>;
  readonly failed: Left<S3Error>;
}

function requireAll({ damaged, refused, failed }: LeftOut, otherwise: string): void {
  const cause = (damaged.first ?? refused.first ?? failed.first)?.error;
  if (cause === undefined) return;
  const reasons: string[] = [];
  if (damaged.first !== undefined)
    reasons.push(`${damaged.count} contents are damaged, that of ${damaged.first.key} among them`);
  if (refused.first !== undefined) {
    const { key, error } = refused.first;
    reasons.push(`the S3 server does not take ${refused.count} objects, ${key} (${error.code}) for one`);
  }
  if (failed.first !== undefined) {
    const { key, error } = failed.first;
    const answer = `${error.status} ${error.code}`;
    reasons.push(`the S3 server fails with ${failed.count} objects, ${key} (${answer}) for one`);
  }
  throw new BackupError(`${reasons.join(', ')}, and all others are restored: ${otherwise}`, { cause });
}

/** A name for an object with this key, size and entity tag. */
export function stateName(
  { nameOf }: Pick<Vault, 'nameOf'>,
  { key, size, etag }: Pick<ListedObject, 'key' | 'size' | 'etag'>,
): string {
  return nameOf(JSON.stringify([key, size, etag]));
}
