import type { Session } from '@space/broker-kit/postgres';
import { S3Error } from '../upstream/errors.ts';
import type { S3Client } from '../upstream/types.ts';
import { addWritten, type Registry } from './rows.ts';

/** Parts of an open upload that the S3 server has and the row does not count, since a broker died in between. */
export interface Missing {
  readonly id: string;
  readonly bytes: number;
}

const PAGE = 1_000;

/** Checks every open upload of a Capsule in the Space's bucket. */
export async function missingParts(
  registry: Registry,
  client: Pick<S3Client, 'listParts'>,
  capsulePrefix: string,
  entryBytes: number,
): Promise<readonly Missing[]> {
  // The rows are read first, so that a part that arrives meanwhile is counted twice and not left out.
  const rows = await registry.lookup.run<{ id: string; key: string; upstream: string; bytes: number }>(
    'find uploads of place',
    `SELECT id, key, upstream_id AS upstream, bytes::float8 AS bytes FROM broker.object_upload
     WHERE place = $1 AND credential_set IS NULL AND upstream_id <> ''`,
    [capsulePrefix],
  );
  const missing: Missing[] = [];
  for (const { id, key, upstream, bytes } of rows) {
    const listed = await chargeOf(client, key, upstream, entryBytes);
    if (listed > bytes) missing.push({ id, bytes: listed - bytes });
  }
  return missing;
}

/** To be called under `lockUsage`. */
export async function addMissing(
  session: Session,
  capsulePrefix: string,
  missing: readonly Missing[],
): Promise<void> {
  for (const { id, bytes } of missing) {
    const rows = await session.run(
      'add missing parts',
      'UPDATE broker.object_upload SET bytes = bytes + $2 WHERE id = $1 RETURNING 1',
      [id, bytes],
    );
    // The upload was completed meanwhile.
    if (rows.length === 0) await addWritten(session, capsulePrefix, bytes);
  }
}

async function chargeOf(
  client: Pick<S3Client, 'listParts'>,
  key: string,
  upload: string,
  entryBytes: number,
): Promise<number> {
  let bytes = 0;
  let after: number | undefined = 0;
  try {
    while (after !== undefined) {
      const page = await client.listParts(key, upload, { after, limit: PAGE });
      for (const { size } of page.parts) bytes += size + entryBytes;
      after = page.next;
    }
  } catch (error) {
    // The upload has ended, and its row will be deleted.
    if (!(error instanceof S3Error) || error.code !== 'NoSuchUpload') throw error;
  }
  return bytes;
}
