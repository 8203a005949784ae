import { S3Error } from '../upstream/errors.ts';
import type { Head } from '../upstream/relay.ts';
import type { S3Client } from '../upstream/types.ts';
import { CONTENT_NAME } from './entry.ts';
import { BackupError, DamagedContentError, DestinationError, damagedPoint, unopenedPoint } from './errors.ts';
import { writeHeadLast } from './head-last.ts';
import { completionsUnder, createInventories, type Inventories } from './inventories.ts';
import { opened } from './opened.ts';
import { listed, pieces } from './pieces.ts';
import { startedOf } from './point-names.ts';
import { reading } from './reading.ts';
import { abortRecorded } from './recorded-upload.ts';
import { type Clock, retrying } from './retrying.ts';
import type { Bytes, Sealer } from './sealer.ts';
import { upload } from './uploading.ts';

/** A content in the destination. */
export interface Content {
  readonly name: string;
  /** The number of encrypted bytes. */
  readonly size: number;
  /** ISO 8601. */
  readonly modified: string;
}

/** A point that is written while its entries are found. */
interface NewPoint {
  readonly name: string;
  /** The number of bytes of the header. */
  readonly headerBytes: number;
  readonly entries: Bytes;
  /** Produces the header after the last entry. */
  readonly header: () => Promise<Uint8Array>;
}

/** The destination of a backup; all that it has of the Space is encrypted. Points and lists are read as they are needed, and not held in memory. */
export interface Vault extends Inventories {
  /** Names of points, the oldest first. */
  points(signal: AbortSignal): Promise<string[]>;
  /** Complete contents. */
  contents(signal: AbortSignal): AsyncIterable<Content>;
  writePoint(point: NewPoint, signal: AbortSignal): Promise<void>;
  /** The decrypted bytes of a point; its reader may take any time. Throws BackupError if it cannot be decrypted. */
  readPoint(name: string, signal: AbortSignal): AsyncIterable<Uint8Array>;
  /** Throws DestinationError if its server fails. */
  writeContent(name: string, bytes: Bytes, length: number, signal: AbortSignal): Promise<void>;
  /** Lets `use` read the decrypted content. Throws BackupError if it cannot be decrypted. */
  readContent<T>(
    name: string,
    signal: AbortSignal,
    use: (bytes: Bytes, head: Head) => Promise<T>,
  ): Promise<T>;
  remove(kind: Kind, names: readonly string[], signal: AbortSignal): Promise<void>;
  /** Aborts uploads that were begun, or being completed, before this time; returns how many. */
  abandonUploads(before: Date, signal: AbortSignal): Promise<number>;
  sealedLength(length: number): number;
  nameOf(text: string): string;
}

type Kind = 'points' | 'objects';

/** The most keys of a request to delete, and of a page of uploads. */
const PAGE = 1_000;

/** `clock` is that of the pauses between attempts. */
export function createVault(s3: S3Client, sealer: Sealer, prefix: string, clock: Clock): Vault {
  const folder = (kind: Kind) => `${prefix}/bucket/${kind}/`;
  const keyOf = (kind: Kind, name: string) => folder(kind) + name;
  const records = completionsUnder(prefix);
  return {
    ...createInventories(s3, sealer, prefix, clock),
    points: async (signal) => {
      const names: string[] = [];
      for await (const { key } of listed({ s3, clock, signal }, folder('points'))) {
        const name = key.slice(folder('points').length);
        if (startedOf(name) !== undefined) names.push(name);
      }
      return names.sort();
    },
    contents: async function* (signal) {
      for await (const { key, size, modified } of listed({ s3, clock, signal }, folder('objects'))) {
        const name = key.slice(folder('objects').length);
        if (CONTENT_NAME.test(name)) yield { name, size, modified };
      }
    },
    writePoint: ({ name, headerBytes, entries, header }, signal) =>
      writeHeadLast({ s3, clock, signal }, sealer, {
        ...{ key: keyOf('points', name), headBytes: headerBytes },
        ...{ rest: entries, head: header, records },
      }),
    readPoint: (name, signal) =>
      opened(sealer, pieces({ s3, clock, signal }, keyOf('points', name)), (error) =>
        error instanceof BackupError ? unopenedPoint(name, error) : damagedPoint(name, error),
      ),
    writeContent: async (name, plain, length, signal) => {
      const sealed = await sealer.seal(plain, length);
      const headers = { 'content-type': 'application/octet-stream' };
      await upload({ s3, clock, signal }, { key: keyOf('objects', name), ...sealed, headers, records }).catch(
        (error: unknown) => {
          throw error instanceof S3Error ? new DestinationError(error) : error;
        },
      );
    },
    readContent: (name, signal, use) =>
      reading(s3, keyOf('objects', name), { signal }, async (head, body) => {
        const opened = await sealer.open(body).catch((error: unknown) => {
          throw new DamagedContentError(`the content ${name} cannot be opened`, { cause: error });
        });
        return use(opened, head);
      }),
    remove: async (kind, names, signal) => {
      for (let at = 0; at < names.length; at += PAGE) {
        const keys = names.slice(at, at + PAGE).map((name) => keyOf(kind, name));
        const [failed] = await retrying(clock, signal, () => s3.deleteMany(keys, { signal }));
        if (failed !== undefined)
          throw new BackupError(
            `the backup's server did not delete ${failed.key} (${failed.code}): let the key of the backup delete`,
          );
      }
    },
    abandonUploads: async (before, signal) => {
      let count = await abortRecorded({ s3, clock, signal }, records, before);
      let after: string | undefined;
      do {
        const page = await s3.listUploads({ prefix: `${prefix}/bucket/`, after, limit: PAGE }, { signal });
        for (const { key, id, initiated } of page.uploads) {
          if (!(initiated < before)) continue;
          await s3.abortUpload(key, id, { signal });
          count += 1;
        }
        after = page.next;
      } while (after !== undefined);
      return count;
    },
    sealedLength: sealer.sealedLength,
    nameOf: sealer.nameOf,
  };
}
