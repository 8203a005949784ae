import { S3Error } from '../upstream/errors.ts';
import { clearFolder, isLong, keyTooLong } from '../upstream/folders.ts';
import type { S3Client } from '../upstream/types.ts';
import { folderOf } from './object-key.ts';

/** How long it may take to look for what a failed write has left. */
const CLEAR_MS = 10_000;
/** After it a server is done with what nobody waits for any more, because the caller hung up, say. */
const LATE_MS = 60_000;
/** Folders that are looked at so late, at one time; others immediately. */
const MOST_LATE = 10_000;

/**
 * A client of the Space's bucket, which may be a directory of the Space's own disk: a write that fails leaves none of the
 * folders behind that its key would have, since nothing counts them. What surely fails there is not asked for.
 */
export function sparingDisk(client: S3Client, lateMs = LATE_MS): S3Client {
  let late = 0;

  async function clear(folder: string | undefined): Promise<void> {
    // The caller is told why the write failed, whatever becomes of this.
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

  return {
    ...client,
    put: (key, body, options) => writing(key, () => client.put(key, body, options)),
    copy: (from, to, options) => writing(to, () => client.copy(from, to, options)),
    createUpload: async (key, options) => {
      if (isLong(key)) throw keyTooLong();
      return client.createUpload(key, options);
    },
    // An empty directory of the object's own name makes versitygw fail as well; without it the next try succeeds.
    completeUpload: (key, upload, parts, options) =>
      writing(key, () => client.completeUpload(key, upload, parts, options), `${key}/`),
  };
}
