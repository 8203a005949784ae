import { randomBytes } from 'node:crypto';
import type { Logger } from '@space/broker-kit';
import type { Session } from '@space/broker-kit/postgres';
import type { S3Client } from '../upstream/client.ts';
import { S3Error } from '../upstream/errors.ts';
import { addWritten, lockUsage, type Registry } from './quota/rows.ts';

/** An open multipart upload. Its id is ours and random; the upstream's never leaves. */
export interface Upload {
  readonly id: string;
  /** The Capsule's place. */
  readonly place: string;
  /** The place of the bucket that it is for, and so who may use it. */
  readonly room: string;
  /** Physical. */
  readonly key: string;
  readonly upstreamId: string;
  /** The credential set whose bucket it is in; null is the Space's. */
  readonly credentialSet: string | null;
}

export interface OpenUpload extends Upload {
  readonly createdAt: Date;
}

const COLUMNS =
  'id, place, room, key, upstream_id AS "upstreamId", credential_set AS "credentialSet", created_at AS "createdAt"';
const ID = /^[0-9a-f]{32}$/;

/** The rows of open uploads. */
export interface Uploads {
  open(upload: Omit<Upload, 'id' | 'credentialSet'>): Promise<string>;
  /** Undefined unless the room has such an upload, in this bucket. */
  find(room: string, id: string): Promise<OpenUpload | undefined>;
  list(
    room: string,
    page: {
      readonly prefix: string;
      readonly afterKey: string;
      readonly afterId: string;
      readonly limit: number;
    },
  ): Promise<readonly OpenUpload[]>;
  /** Counts a part. */
  addBytes(id: string, place: string, bytes: number): Promise<void>;
  /** Ends it: what its parts weigh is an object now, or (`freed`) nothing. */
  close(upload: Upload, freed: boolean): Promise<void>;
}

/** Those of one credential set, or of the Space-managed credential. */
export function createUploads(registry: Registry, credentialSet: string | null = null): Uploads {
  return {
    open: async ({ place, room, key, upstreamId }) => {
      const id = randomBytes(16).toString('hex');
      await registry.transaction(async (session) => {
        await lockUsage(session, place);
        await session.run(
          'insert upload',
          `INSERT INTO broker.object_upload (id, place, room, key, upstream_id, credential_set)
           VALUES ($1, $2, $3, $4, $5, $6)`,
          [id, place, room, key, upstreamId, credentialSet],
        );
      });
      return id;
    },
    find: async (room, id) => {
      if (!ID.test(id)) return undefined;
      const [row] = await registry.lookup.run<OpenUpload>(
        'find upload',
        `SELECT ${COLUMNS} FROM broker.object_upload 
         WHERE id = $1 AND room = $2 AND credential_set IS NOT DISTINCT FROM $3`,
        [id, room, credentialSet],
      );
      return row;
    },
    list: (room, { prefix, afterKey, afterId, limit }) =>
      registry.lookup.run<OpenUpload>(
        'list uploads',
        `SELECT ${COLUMNS} FROM broker.object_upload
         WHERE room = $1 AND starts_with(key, $2) AND (key COLLATE "C", id COLLATE "C") > ($3, $4)
           AND credential_set IS NOT DISTINCT FROM $6
         ORDER BY key COLLATE "C", id COLLATE "C" LIMIT $5`,
        [room, prefix, afterKey, afterId, limit, credentialSet],
      ),
    addBytes: (id, place, bytes) =>
      registry.transaction(async (session) => {
        await lockUsage(session, place);
        const rows = await session.run(
          'add part',
          'UPDATE broker.object_upload SET bytes = bytes + $2 WHERE id = $1 RETURNING 1',
          [id, bytes],
        );
        // Completed or aborted by another request meanwhile: what was stored counts as written.
        if (rows.length === 0) await addWritten(session, place, bytes);
      }),
    close: ({ id, place }, freed) =>
      registry.transaction(async (session) => {
        await lockUsage(session, place);
        const bytes = await remove(session, id);
        if (!freed && bytes > 0) await addWritten(session, place, bytes);
      }),
  };
}

async function remove(session: Session, id: string): Promise<number> {
  const [row] = await session.run<{ bytes: number }>(
    'delete upload',
    'DELETE FROM broker.object_upload WHERE id = $1 RETURNING bytes::float8 AS bytes',
    [id],
  );
  return row?.bytes ?? 0;
}

/** For upkeep, which has no grant: of an upload in a Capsule's own bucket only our row is ours to end. */
async function giveUp(client: S3Client, uploads: Uploads, upload: Upload): Promise<void> {
  if (upload.credentialSet === null) await abortUpload(client, uploads, upload);
  else await uploads.close(upload, true);
}

/** Ends an upload at both sides. What the upstream does not know may have been completed: then its bytes stay. */
export async function abortUpload(client: S3Client, uploads: Uploads, upload: Upload): Promise<void> {
  let freed = true;
  try {
    await client.abortUpload(upload.key, upload.upstreamId);
  } catch (error) {
    if (!(error instanceof S3Error) || error.code !== 'NoSuchUpload') throw error;
    freed = false;
  }
  await uploads.close(upload, freed);
}

/** Uploads that nobody finished are aborted after a day; a few at a time, the oldest first. */
export async function abortForgotten(
  registry: Registry,
  client: S3Client,
  { afterSeconds, log }: { readonly afterSeconds: number; readonly log: Logger },
): Promise<void> {
  const uploads = createUploads(registry);
  const rows = await registry.lookup.run<OpenUpload>(
    'find forgotten uploads',
    `SELECT ${COLUMNS} FROM broker.object_upload
     WHERE created_at < clock_timestamp() - make_interval(secs => $1) ORDER BY created_at LIMIT 100`,
    [afterSeconds],
  );
  for (const upload of rows) {
    try {
      await giveUp(client, uploads, upload);
    } catch (error) {
      log.warn({ err: error }, 'forgotten upload not aborted');
    }
  }
}

/** Aborts every open upload under a place, as its objects are deleted. May be stopped and run again. */
export async function abortUnder(registry: Registry, client: S3Client, place: string): Promise<void> {
  const uploads = createUploads(registry);
  for (;;) {
    const rows = await registry.lookup.run<OpenUpload>(
      'find uploads under place',
      `SELECT ${COLUMNS} FROM broker.object_upload WHERE starts_with(room, $1) LIMIT 100`,
      [place],
    );
    if (rows.length === 0) return;
    for (const upload of rows) await giveUp(client, uploads, upload);
  }
}
