import { OWNER_KEY } from '../upstream/owner.ts';
import { isAlwaysNewest } from './choose.ts';
import type { Listed } from './copy-listed.ts';
import type { Entry } from './entry.ts';
import { BackupError } from './errors.ts';
import { CAPSULES } from './run.ts';

/** Written by a broker that has created the bucket, to try conditional writes; it records nothing. */
const TRIAL = 'custody/v1/precondition';

/** The broker overwrites these and never deletes one. */
function isRecord(entry: Pick<Entry, 'key'>): boolean {
  return entry.key === OWNER_KEY || (isAlwaysNewest(entry) && entry.key !== TRIAL);
}

/**
 * Compares the bucket with the newest point, to tell an emptied bucket from one whose Capsules have deleted objects: a point of it
 * would be what a restore takes for the end of the backup.
 */
export class Losses {
  readonly #before = new Map<string, Entry>();
  readonly #now = new Map<string, Entry>();
  #objectsBefore = 0;
  #objectsKept = 0;

  /** Passes the entries of the newest point on. */
  async *reading(entries: AsyncIterable<Entry>): AsyncGenerator<Entry> {
    for await (const entry of entries) {
      if (isRecord(entry)) this.#before.set(entry.key, entry);
      else if (entry.key.startsWith(CAPSULES)) this.#objectsBefore += 1;
      yield entry;
    }
  }

  /** Passes the objects of the bucket on. */
  async *listing(objects: AsyncIterable<Listed>): AsyncGenerator<Listed> {
    for await (const one of objects) {
      const { state, earlier } = one;
      const isKept = earlier !== undefined && earlier.etag === state.etag && earlier.size === state.size;
      if (isKept && state.key.startsWith(CAPSULES)) this.#objectsKept += 1;
      yield one;
    }
  }

  /** Notes an entry of the point that is being made. */
  has(entry: Entry): void {
    if (isRecord(entry)) this.#now.set(entry.key, entry);
  }

  /** What is lost, if that is not the work of Capsules. */
  found(): string | undefined {
    const lost = [...this.#before.keys()].filter((key) => !this.#now.has(key));
    const [first] = lost;
    if (first !== undefined) {
      const reason =
        this.#objectsKept === 0
          ? 'emptied, or is another one'
          : 'set back, or something else than the broker has removed them';
      return `lacks ${lost.length} of its ${this.#before.size} records, ${first} for one: it was ${reason}`;
    }
    if (this.#isFilledAgain())
      return `has none of its ${this.#objectsBefore} objects of Capsules, and another ${OWNER_KEY}: it was emptied, or is another one`;
    return undefined;
  }

  /** The owner is written once. A restore writes it again, too, but then brings objects of Capsules as they were. */
  #isFilledAgain(): boolean {
    const [before, now] = [this.#before.get(OWNER_KEY), this.#now.get(OWNER_KEY)];
    const isOther = before !== undefined && now !== undefined && before.last_modified !== now.last_modified;
    return isOther && this.#objectsBefore > 0 && this.#objectsKept === 0;
  }
}

/** Rejects a copy after which the backup would end with a bucket that has lost what the newest point has. */
export function requireNoLoss(losses: Losses, newest: string, accepted: string | undefined): void {
  const found = losses.found();
  if (found === undefined || accepted === newest) return;
  throw new BackupError(
    `compared with the point ${newest}, the Space's bucket ${found}; no point was made, and ${newest} stays the newest: restore the bucket, or, if this is intended, copy once with BACKUP_ACCEPT_LOSS=${newest}`,
  );
}
