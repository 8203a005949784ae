import { S3Error } from '../upstream/errors.ts';
import { clearFolder, isLong, keyTooLong } from '../upstream/folders.ts';
import type { S3Client } from '../upstream/types.ts';
import { folderOf } from './object-key.ts';

/** How long it may take to look for what a failed write has left. */
const CLEAR_MS = 10_000;

/**
 * A client of the Space's bucket, which may be a directory of the Space's own disk: a write that fails leaves none of the
 * folders behind that its key would have, since nothing counts them. What surely fails there is not asked for.
 */
export function sparingDisk(client: S3Client): S3Client {
  async function clear(folder: string | undefined): Promise<void> {
    // The caller is told why the write failed, whatever becomes of this.
    if (folder !== undefined)
      await clearFolder(client, folder, AbortSignal.timeout(CLEAR_MS)).catch(() => undefined);
  }

  async function writing<T>(key: string, act: () => Promise<T>, more?: string): Promise<T> {
    if (isLong(key)) throw keyTooLong();
    try {
      return await act();
    } catch (error) {
      // Without an answer it may still be under way.
      if (error instanceof S3Error && error.kind === 'answered') {
        await clear(more);
        await clear(folderOf(key));
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
    // A directory in its place is told as any failure of the server, and goes where it is empty.
    completeUpload: (key, upload, parts, options) =>
      writing(key, () => client.completeUpload(key, upload, parts, options), `${key}/`),
  };
}
