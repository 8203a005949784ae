import type { Entry } from './entry.ts';
import { DamagedPointError } from './errors.ts';

/** The entries of an earlier point, which are looked up in the order of their keys. */
export interface Earlier {
  /** The entry of a key; undefined if the point has none, or if it has it elsewhere than in the order of keys. */
  find(key: string): Promise<Entry | undefined>;
  /** Reads all entries that have not been reached yet. */
  rest(): Promise<void>;
  close(): Promise<void>;
}

/**
 * Follows a point's entries as the keys that are looked up advance, so that one entry is in memory. S3 lists keys in the order of
 * their bytes. Where a server has another order, an entry is not found, and its object is looked at again, which is only
 * slower. The same holds for the rest of a damaged point.
 */
export function followed(entries: AsyncIterable<Entry>): Earlier {
  const all = entries[Symbol.asyncIterator]();
  let current: Entry | undefined;
  let isOver = false;
  const advance = async () => {
    try {
      const next = await all.next();
      current = next.done === true ? undefined : next.value;
    } catch (error) {
      if (!(error instanceof DamagedPointError)) throw error;
      current = undefined;
    }
    isOver = current === undefined;
  };
  return {
    find: async (key) => {
      while (!isOver && (current === undefined || isBefore(current.key, key))) await advance();
      return current?.key === key ? current : undefined;
    },
    rest: async () => {
      while (!isOver) await advance();
    },
    close: async () => void (await all.return?.()),
  };
}

/** Whether a key is before another in S3's order. */
export function isBefore(a: string, b: string): boolean {
  return Buffer.compare(Buffer.from(a), Buffer.from(b)) < 0;
}
