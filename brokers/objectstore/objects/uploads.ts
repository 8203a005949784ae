import { randomBytes } from 'node:crypto';
import { ServiceError, type SharedSlots } from '@space/broker-kit';
import type { Session } from '@space/broker-kit/postgres';
import { UNANSWERED_SECONDS } from '../quota/allowance.ts';
import { addDoubt, addWritten, lockUsage, type Registry } from '../quota/rows.ts';
import { type UploadEnds, uploadEnds } from './upload-ends.ts';

/** An open multipart upload. Its id is random and the broker's own; the upstream's id is never shown. */
export interface Upload {
  readonly id: string;
  /** The prefix of all objects of the Capsule. */
  readonly capsulePrefix: string;
  /** The prefix of the bucket that the upload is for, which decides who may use it. */
  readonly bucketPrefix: string;
  /** The key in the Space's bucket. */
  readonly key: string;
  /** Empty until the upstream is known to have begun the upload. */
  readonly upstreamId: string;
  /** The credential set whose bucket the upload is in; null means the Space's. */
  readonly credentialSet: string | null;
}

export interface OpenUpload extends Upload {
  readonly createdAt: Date;
}

export const UPLOAD_COLUMNS =
  'id, place AS "capsulePrefix", room AS "bucketPrefix", key, upstream_id AS "upstreamId", credential_set AS "credentialSet", created_at AS "createdAt"';
const ID = /^[0-9a-f]{32}$/;

/** The rows of open uploads. */
export interface Uploads extends UploadEnds {
  /**
   * Counts an upload before the upstream is asked to begin it, so that it counts whatever fails afterwards.
   * @throws ServiceError `quota_exceeded` if the Capsule has too many open ones
   */
  open(
    upload: Omit<Upload, 'id' | 'upstreamId' | 'credentialSet'> & { readonly bytes: number },
  ): Promise<string>;
  /** Notes that the upstream has begun it; false if it has ended meanwhile. @throws ServiceError as `open` */
  begun(upload: Pick<Upload, 'id' | 'capsulePrefix' | 'upstreamId'>): Promise<boolean>;
  /** Notes that the upstream did not say so; `doubted` are the seconds in which it may still begin it, if it may at all. */
  unbegun(id: string, doubted: number | undefined): Promise<void>;
  /** Undefined unless the bucket has such an upload. */
  find(bucketPrefix: string, id: string): Promise<OpenUpload | undefined>;
  /** Throws if the caller may not use an upload of this key; without it, every upload may be used. */
  readonly demand?: (bucketPrefix: string, key: string) => void;
  list(
    bucketPrefix: string,
    page: {
      readonly prefix: string;
      readonly afterKey: string;
      readonly afterId: string;
      readonly limit: number;
    },
    /** The Capsule that the look-up is charged to. */
    who: { readonly capsulePrefix: string; readonly signal: AbortSignal },
  ): Promise<readonly OpenUpload[]>;
  /** Counts a part, stored or (`doubted`) perhaps stored; returns whether its upload is still open. */
  addBytes(upload: Upload, bytes: number, doubted: boolean): Promise<boolean>;
  /** Ends the upload: its parts are an object now, or (`freed`) nothing. */
  close(upload: Upload, freed: boolean): Promise<void>;
}

export interface UploadsOptions {
  readonly registry: Registry;
  /** The most open uploads of a Capsule. */
  readonly most: number;
  /** The credential set whose uploads these are; null means the Space-managed credential. */
  readonly credentialSet?: string | null;
  /** Slots for lists of uploads. */
  readonly records: Pick<SharedSlots, 'take'>;
  readonly onRefused?: () => void;
  /** Called for each part that arrives after its upload has ended. */
  readonly onLate?: () => void;
  readonly now?: () => Date;
}

/**
 * The condition that a row was opened more than so many seconds before now; both are parameters of a statement. The wrong
 * clock of one server alone makes no row older. The time in a row, and now, are the broker's, which the S3 server compares
 * with its own: it refuses signatures that are 15 minutes off. The registry's clock has to agree that it is so late.
 */
export const isOlder = (seconds: `$${number}`, now: `$${number}`): string =>
  `created_at < least(${now}, clock_timestamp()) - make_interval(secs => ${seconds})`;

export function createUploads(options: UploadsOptions): Uploads {
  const { registry, records, credentialSet = null } = options;

  return {
    ...openings(options),
    ...uploadEnds(registry),
    find: async (bucketPrefix, id) => {
      if (!ID.test(id)) return undefined;
      const [row] = await registry.lookup.run<OpenUpload>(
        'find upload',
        `SELECT ${UPLOAD_COLUMNS} FROM broker.object_upload
         WHERE id = $1 AND room = $2 AND upstream_id <> '' AND credential_set IS NOT DISTINCT FROM $3`,
        [id, bucketPrefix, credentialSet],
      );
      return row;
    },
    list: async (bucketPrefix, { prefix, afterKey, afterId, limit }, { capsulePrefix, signal }) => {
      const back = await records.take(capsulePrefix, signal);
      try {
        return await registry.lookup.run<OpenUpload>(
          'list uploads',
          `SELECT ${UPLOAD_COLUMNS} FROM broker.object_upload
           WHERE room = $1 AND upstream_id <> '' AND starts_with(key, $2) AND (key COLLATE "C", id COLLATE "C") > ($3, $4)
             AND credential_set IS NOT DISTINCT FROM $6
           ORDER BY key COLLATE "C", id COLLATE "C" LIMIT $5`,
          [bucketPrefix, prefix, afterKey, afterId, limit, credentialSet],
        );
      } finally {
        back();
      }
    },
    addBytes: ({ id, capsulePrefix }, bytes, doubted) =>
      registry.transaction(async (session) => {
        await lockUsage(session, capsulePrefix);
        const rows = await session.run(
          'add part',
          `UPDATE broker.object_upload SET bytes = bytes + $2, doubted = doubted + $3 WHERE id = $1 RETURNING 1`,
          [id, bytes, doubted ? bytes : 0],
        );
        if (rows.length === 1) return true;
        // Another request has completed or aborted it meanwhile.
        options.onLate?.();
        if (doubted) await addDoubt(session, capsulePrefix, bytes, UNANSWERED_SECONDS);
        else await addWritten(session, capsulePrefix, bytes);
        return false;
      }),
    close: ({ id, capsulePrefix }, freed) =>
      registry.transaction(async (session) => {
        await lockUsage(session, capsulePrefix);
        const [row] = await session.run<{ bytes: number; doubted: number }>(
          'delete upload',
          `DELETE FROM broker.object_upload WHERE id = $1
           RETURNING bytes::float8 AS bytes, doubted::float8 AS doubted`,
          [id],
        );
        if (row === undefined) return;
        const known = row.bytes - row.doubted;
        if (!freed && known > 0) await addWritten(session, capsulePrefix, known);
        // The server may still be storing these bytes, in parts or in the object.
        if (row.doubted > 0) await addDoubt(session, capsulePrefix, row.doubted, UNANSWERED_SECONDS);
      }),
  };
}

function openings(options: UploadsOptions): Pick<Uploads, 'open' | 'begun' | 'unbegun'> {
  const { registry, credentialSet = null, now = () => new Date() } = options;
  return {
    open: async ({ capsulePrefix, bucketPrefix, key, bytes }) => {
      const id = randomBytes(16).toString('hex');
      await registry.transaction(async (session) => {
        await lockUsage(session, capsulePrefix);
        await expectUploadSlot(session, capsulePrefix, options);
        await session.run(
          'insert upload',
          `INSERT INTO broker.object_upload
             (id, place, room, key, upstream_id, credential_set, bytes, doubted, created_at)
           VALUES ($1, $2, $3, $4, '', $5, $6, $6, $7)`,
          [id, capsulePrefix, bucketPrefix, key, credentialSet, bytes, now()],
        );
      });
      return id;
    },
    begun: ({ id, capsulePrefix, upstreamId }) =>
      registry.transaction(async (session) => {
        await lockUsage(session, capsulePrefix);
        await expectUploadSlot(session, capsulePrefix, options);
        const rows = await session.run(
          'begin upload',
          `UPDATE broker.object_upload SET upstream_id = $2, doubted = 0 WHERE id = $1 AND upstream_id = ''
           RETURNING 1`,
          [id, upstreamId],
        );
        return rows.length === 1;
      }),
    unbegun: async (id, doubted) => {
      // In a Capsule's own bucket nothing counts, and nobody can look later.
      if (doubted === undefined || credentialSet !== null) return forgetUnbegun(registry.lookup, [id]);
      if (doubted > 0) return;
      await registry.lookup.run(
        'end doubt of upload',
        `UPDATE broker.object_upload SET doubted = 0 WHERE id = $1 AND upstream_id = ''`,
        [id],
      );
    },
  };
}

/** Ends uploads that the upstream has not begun, unless it has meanwhile. */
export async function forgetUnbegun(session: Session, ids: readonly string[]): Promise<void> {
  await session.run(
    'forget uploads',
    `DELETE FROM broker.object_upload WHERE id = ANY($1::text[]) AND upstream_id = ''`,
    [ids],
  );
}

async function expectUploadSlot(
  session: Session,
  capsulePrefix: string,
  { most, onRefused }: Pick<UploadsOptions, 'most' | 'onRefused'>,
): Promise<void> {
  const [row] = await session.run<{ taken: boolean }>(
    'count open uploads',
    `SELECT count(*) >= $2::bigint AS taken FROM (
       SELECT FROM broker.object_upload WHERE place = $1 AND upstream_id <> '' LIMIT $2::bigint) AS open`,
    [capsulePrefix, most],
  );
  if (row?.taken !== true) return;
  onRefused?.();
  throw new ServiceError('quota_exceeded', 'as many open uploads as the Capsule may have');
}
