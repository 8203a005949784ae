import type { S3Client } from '../upstream/types.ts';
import { BackupError } from './errors.ts';
import { writeHeadLast } from './head-last.ts';
import { opened } from './opened.ts';
import { listed, pieces } from './pieces.ts';
import { type Clock, retrying } from './retrying.ts';
import type { Bytes, Sealer } from './sealer.ts';

/** Encrypted objects in the destination in which a run keeps, while it lasts, what does not fit into its memory. */
export interface Inventories {
  /** Stores bytes of whatever number; afterwards all of them are there, or none. */
  writeInventory(name: string, bytes: Bytes, signal: AbortSignal): Promise<void>;
  /** The decrypted bytes; their reader may take any time. Throws BackupError if they cannot be decrypted. */
  readInventory(name: string, signal: AbortSignal): Bytes;
  /** Never rejects: `removeInventories` removes one that remains. */
  removeInventory(name: string): Promise<void>;
  /** Removes those that were written before this time, by runs that were killed. */
  removeInventories(before: Date, signal: AbortSignal): Promise<void>;
}

const REMOVAL_MS = 5_000;

/** The prefix of records of uploads that are being completed. */
export const completionsUnder = (prefix: string): string => `${prefix}/bucket/completions/`;

/** `clock` is that of the pauses between attempts. */
export function createInventories(
  s3: S3Client,
  sealer: Sealer,
  prefix: string,
  clock: Pick<Clock, 'pause'>,
): Inventories {
  const records = completionsUnder(prefix);
  const folder = `${prefix}/bucket/inventories/`;
  return {
    writeInventory: (name, bytes, signal) =>
      writeHeadLast({ s3, clock, signal }, sealer, {
        ...{ key: folder + name, headBytes: 0 },
        ...{ rest: bytes, head: async () => new Uint8Array(), records },
      }),
    readInventory: (name, signal) =>
      opened(sealer, pieces({ s3, clock, signal }, folder + name), unreadInventory),
    // The run that stored it may have been told to stop, so this has a time of its own.
    removeInventory: (name) =>
      s3.delete(folder + name, { signal: AbortSignal.timeout(REMOVAL_MS) }).catch(() => undefined),
    removeInventories: async (before, signal) => {
      for await (const { key, modified } of listed({ s3, clock, signal }, folder))
        if (Date.parse(modified) < before.getTime())
          await retrying(clock, signal, () => s3.delete(key, { signal }));
    },
  };
}

export function unreadInventory(cause?: unknown): BackupError {
  return new BackupError(
    "the list that this run has stored in the backup's bucket cannot be read back: let nothing else write there, and copy again",
    { cause },
  );
}
