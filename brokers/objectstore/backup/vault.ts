import type { Head } from '../upstream/relay.ts';
import type { ListedObject, S3Client } from '../upstream/types.ts';
import { BackupError, DamagedContentError, DamagedPointError } from './errors.ts';
import { startedOf } from './point-names.ts';
import { reading } from './reading.ts';
import type { Bytes, Sealer } from './sealer.ts';
import { upload } from './uploading.ts';

/** The destination of a backup; everything in it is encrypted. */
export interface Vault {
  /** Names of points, the oldest first. */
  points(signal: AbortSignal): Promise<string[]>;
  /** Complete contents with their sizes and times, by name. */
  contents(signal: AbortSignal): Promise<Map<string, { readonly size: number; readonly modified: string }>>;
  write(what: Stored, bytes: Bytes, length: number, signal: AbortSignal): Promise<void>;
  /** Lets `use` read the decrypted content. Throws BackupError if it cannot be decrypted. */
  read<T>(what: Stored, signal: AbortSignal, use: (bytes: Bytes, head: Head) => Promise<T>): Promise<T>;
  remove(what: Stored['kind'], names: readonly string[], signal: AbortSignal): Promise<void>;
  /** Aborts uploads that were begun before this time; returns how many. */
  abandonUploads(before: Date, signal: AbortSignal): Promise<number>;
  sealedLength(length: number): number;
  nameOf(text: string): string;
}

interface Stored {
  readonly kind: 'points' | 'objects';
  readonly name: string;
}

const PAGE = 1_000;

export function createVault(s3: S3Client, sealer: Sealer, prefix: string): Vault {
  const folder = (kind: Stored['kind']) => `${prefix}/bucket/${kind}/`;
  const keyOf = ({ kind, name }: Stored) => folder(kind) + name;
  return {
    points: async (signal) => {
      const names: string[] = [];
      for await (const { key } of listed(s3, folder('points'), signal)) {
        const name = key.slice(folder('points').length);
        if (startedOf(name) !== undefined) names.push(name);
      }
      return names.sort();
    },
    contents: async (signal) => {
      const found = new Map<string, { size: number; modified: string }>();
      for await (const { key, size, modified } of listed(s3, folder('objects'), signal))
        found.set(key.slice(folder('objects').length), { size, modified });
      return found;
    },
    write: async (what, plain, length, signal) => {
      const sealed = await sealer.seal(plain, length);
      const headers = { 'content-type': 'application/octet-stream' };
      await upload(s3, { key: keyOf(what), ...sealed, headers, signal });
    },
    read: (what, signal, use) =>
      reading(s3, keyOf(what), { signal }, async (head, body) => use(await opened(sealer, what, body), head)),
    remove: async (kind, names, signal) => {
      for (let at = 0; at < names.length; at += PAGE) {
        const keys = names.slice(at, at + PAGE).map((name) => keyOf({ kind, name }));
        const [failed] = await s3.deleteMany(keys, { signal });
        if (failed !== undefined)
          throw new BackupError(
            `the backup's server did not delete ${failed.key} (${failed.code}): let the key of the backup delete`,
          );
      }
    },
    abandonUploads: async (before, signal) => {
      let count = 0;
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

async function opened(sealer: Sealer, { kind, name }: Stored, body: Bytes): Promise<Bytes> {
  try {
    return await sealer.open(body);
  } catch (error) {
    if (kind === 'objects')
      throw new DamagedContentError(`the content ${name} cannot be opened`, { cause: error });
    throw new DamagedPointError(
      `the point ${name} cannot be opened: give BACKUP_IDENTITY_FILE the identity that it was made with, or remove the point from the backup where it is damaged`,
      { cause: error },
    );
  }
}

/** All objects with a prefix. */
export async function* listed(
  s3: Pick<S3Client, 'list'>,
  prefix: string,
  signal: AbortSignal,
): AsyncGenerator<ListedObject> {
  let token: string | undefined;
  do {
    const page = await s3.list({ prefix, token, limit: PAGE }, { signal });
    yield* page.objects;
    token = page.next;
  } while (token !== undefined);
}
