import type { ListedObject } from '../upstream/types.ts';
import type { Chosen } from './choose.ts';
import type { Entry } from './entry.ts';
import { BackupError, DamagedContentError } from './errors.ts';
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
  /** What a person can do about damaged contents, as a sentence. */
  readonly otherwise: string;
}

/**
 * Restores all entries that are missing from the bucket; returns how many were present. A damaged content does not
 * prevent the others, but at the end it makes the restore fail.
 */
export async function bringBack(
  run: Run,
  { anchors, others }: Chosen<Entry>,
  { there, keyOf, otherwise }: Bringing,
): Promise<number> {
  const { vault, clock, signal, atOnce } = run;
  const damaged: { readonly key: string; readonly error: DamagedContentError }[] = [];
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
      if (!(error instanceof DamagedContentError)) throw error;
      damaged.push({ key: entry.key, error });
    }
  };
  // Records about answers that were given are restored before anything else.
  await several(anchors(), atOnce, signal, one);
  await several(others(), atOnce, signal, one);
  const [first] = damaged;
  if (first !== undefined)
    throw new BackupError(
      `${damaged.length} contents are damaged, that of ${first.key} among them, and all others are restored: ${otherwise}`,
      { cause: first.error },
    );
  return skipped;
}

/** A name for an object with this key, size and entity tag. */
export function stateName(
  { nameOf }: Pick<Vault, 'nameOf'>,
  { key, size, etag }: Pick<ListedObject, 'key' | 'size' | 'etag'>,
): string {
  return nameOf(JSON.stringify([key, size, etag]));
}
