import type { ListedObject } from '../upstream/types.ts';
import type { Chosen } from './choose.ts';
import type { Entry } from './entry.ts';
import { BackupError, DamagedContentError, RefusedObjectError } from './errors.ts';
import type { NameTable } from './name-table.ts';
import { restoreObject } from './restore-object.ts';
import { retrying } from './retrying.ts';
import type { Run } from './run.ts';
import { several } from './several.ts';
import type { Vault } from './vault.ts';

interface Bringing {
  /** The objects that the bucket has already, by `stateName`. */
  readonly there: Pick<NameTable, 'has'>;
  /** Returns the key under which an entry is restored. */
  readonly keyOf: (entry: Entry) => string;
  /** What a person can do about what is not restored, as a sentence. */
  readonly otherwise: string;
}

/**
 * Restores all entries that are missing from the bucket; returns how many were present. A damaged content, or an object that the
 * server does not take, does not prevent the others, but at the end it makes the restore fail: one Capsule could prevent that of all
 * with an object that only the server of before could store.
 */
export async function bringBack(
  run: Run,
  { anchors, others }: Chosen<Entry>,
  { there, keyOf, otherwise }: Bringing,
): Promise<number> {
  const { vault, clock, signal, atOnce } = run;
  const damaged: Left<DamagedContentError> = { count: 0, first: undefined };
  const refused: Left<RefusedObjectError> = { count: 0, first: undefined };
  let skipped = 0;
  const one = async (entry: Entry, either: AbortSignal) => {
    const key = keyOf(entry);
    if (there.has(stateName(vault, { ...entry, key }))) {
      skipped += 1;
      return;
    }
    try {
      await retrying(clock, either, () => restoreObject({ ...run, signal: either }, entry, key));
    } catch (error) {
      if (error instanceof RefusedObjectError) leave(refused, key, error);
      else if (error instanceof DamagedContentError) leave(damaged, entry.key, error);
      else throw error;
    }
  };
  // Records about answers that were given are restored before anything else.
  await several(anchors(), atOnce, signal, one);
  await several(others(), atOnce, signal, one);
  requireAll(damaged, refused, otherwise);
  return skipped;
}

/** Objects that are not restored for one reason. */
interface Left<E extends BackupError> {
  count: number;
  first: { readonly key: string; readonly error: E } | undefined;
}

function leave<E extends BackupError>(left: Left<E>, key: string, error: E): void {
  left.count += 1;
  left.first ??= { key, error };
}

function requireAll(
  damaged: Left<DamagedContentError>,
  refused: Left<RefusedObjectError>,
  otherwise: string,
): void {
  const cause = damaged.first?.error ?? refused.first?.error;
  if (cause === undefined) return;
  const reasons: string[] = [];
  if (damaged.first !== undefined)
    reasons.push(`${damaged.count} contents are damaged, that of ${damaged.first.key} among them`);
  if (refused.first !== undefined) {
    const { key, error } = refused.first;
    reasons.push(`the S3 server does not take ${refused.count} objects, ${key} (${error.code}) for one`);
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
