import { S3Error } from '../upstream/errors.ts';
import { clearFolder, isLong, keyTooLong } from '../upstream/folders.ts';
import type { S3Client } from '../upstream/types.ts';
import { folderOf } from './object-key.ts';

/** Milliseconds for finding what a failed write has left. */
const CLEAR_MS = 10_000;
/** Milliseconds after which a server has finished work that its caller abandoned. */
const LATE_MS = 60_000;
/** The most folders that are checked again after that time; further ones are checked only at once. */
const MOST_LATE = 10_000;

/**
 * Wraps the client of the Space's bucket, whose server may store objects as files: after a failed write it removes the
 * folders that were created for the key, since nothing counts them. Requests that certainly fail there are not sent.
 */
export function sparingDisk(client: S3Client, lateMs = LATE_MS): S3Client {
  let late = 0;

  async function clear(folder: string | undefined): Promise<void> {
    // The caller gets the reason of the failed write, whatever the result of this.
    if (folder !== undefined)
      await clearFolder(client, folder, AbortSignal.timeout(CLEAR_MS)).catch(() => undefined);
  }

  function clearLater(folder: string | undefined): void {
    if (folder === undefined) return;
    const wait = late < MOST_LATE ? lateMs : 0;
    late += 1;
    const end = async () => {
      await clear(folder);
      late -= 1;
    };
    setTimeout(() => void end(), wait).unref();
  }

  async function writing<T>(key: string, act: () => Promise<T>, more?: string): Promise<T> {
    if (isLong(key)) throw keyTooLong();
    try {
      return await act();
    } catch (error) {
      const isOver = error instanceof S3Error && error.kind === 'answered';
      for (const folder of [more, folderOf(key)]) {
        if (isOver) await clear(folder);
        else clearLater(folder);
      }
      throw error;
    }
  }

  /** Whether the server has a directory with something in it where the object is to be, and no object. */
  async function isInTheWay(key: string, error: unknown): Promise<boolean> {
    if (!(error instanceof S3Error && error.kind === 'answered' && error.status === 500)) return false;
    const signal = AbortSignal.timeout(CLEAR_MS);
    const isThere = await client.head(key, { signal }).then(
      () => true,
      (failed: unknown) => !(failed instanceof S3Error && failed.status === 404),
    );
    if (isThere) return false;
    const beneath = await client.list({ prefix: `${key}/`, limit: 1 }, { signal }).catch(() => undefined);
    return beneath !== undefined && beneath.objects.length > 0;
  }

  return {
    ...client,
    put: (key, body, options) => writing(key, () => client.put(key, body, options)),
    copy: (from, to, options) => writing(to, () => client.copy(from, to, options)),
    createUpload: async (key, options) => {
      if (isLong(key)) throw keyTooLong();
      return client.createUpload(key, options);
    },
    // With an empty directory of the object's name, versitygw fails, too; after its removal the next attempt succeeds.
    completeUpload: async (key, upload, parts, options) => {
      const complete = () => client.completeUpload(key, upload, parts, options);
      try {
        return await writing(key, complete, `${key}/`);
      } catch (error) {
        if (!(await isInTheWay(key, error))) throw error;
        // A server that has both may have failed for a moment; versitygw fails again, and says nothing of the directory.
        return await complete().catch(async (again: unknown) => {
          throw (await isInTheWay(key, again)) ? directoryInTheWay(again) : again;
        });
      }
    },
  };
}

const directoryInTheWay = (cause: unknown) =>
  new S3Error('answered', 409, 'ExistingObjectIsDirectory', { cause });
