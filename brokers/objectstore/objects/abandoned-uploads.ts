import { type Logger, ServiceError, SharedSlots } from '@space/broker-kit';
import type { Registry } from '../quota/rows.ts';
import type { S3Client } from '../upstream/types.ts';
import { isUnderPrefix } from './object-key.ts';
import { isNoUpload, type Names } from './upload-ends.ts';
import {
  createUploads,
  isOlder,
  type OpenUpload,
  UPLOAD_COLUMNS,
  type Upload,
  type Uploads,
} from './uploads.ts';

const PAGE = 100;

/**
 * Ends an upload without a caller, and so without a grant: if it is in a Capsule's own bucket, only its row can be
 * removed. The same holds for an upload whose id at the upstream is not known.
 */
async function giveUp(client: S3Client, uploads: Ends, upload: Upload, forced = false): Promise<void> {
  if (upload.credentialSet === null && upload.upstreamId !== '')
    await abortUpload(client, uploads, upload, { forced });
  else await uploads.close(upload, true);
}

type Ends = Pick<Uploads, 'close' | 'take' | 'giveBack'>;

/**
 * Ends an upload at the upstream and in the registry. If the upstream does not know it, or if an earlier completion has
 * not answered, it may have been completed, so its bytes stay counted.
 * @throws ServiceError `conflict` while a completion is running, whose failure would leave the parts, unless it is `forced`
 */
export async function abortUpload(
  client: Pick<S3Client, 'abortUpload'>,
  uploads: Ends,
  upload: Upload,
  { forced = false }: { readonly forced?: boolean } = {},
): Promise<void> {
  const names = await uploads.take(upload, { to: 'abort', forced });
  if (names === 'gone') return;
  if (names === 'busy') throw new ServiceError('conflict', 'another request is ending the upload');
  let isKnown: boolean;
  try {
    isKnown = await abortAll(client, upload, names);
  } catch (error) {
    await uploads.giveBack(upload, names[0]).catch(() => undefined);
    throw error;
  }
  await uploads.close(upload, isKnown && names.length === 1);
  await clearLateParts(client, upload);
}

/** Whether the upstream knew one of them. */
async function abortAll(
  client: Pick<S3Client, 'abortUpload'>,
  upload: Upload,
  names: Names,
): Promise<boolean> {
  let isKnown = false;
  for (const name of names) {
    try {
      await client.abortUpload(upload.key, name);
      isKnown = true;
    } catch (error) {
      if (!isNoUpload(error, name, upload)) throw error;
    }
  }
  return isKnown;
}

/**
 * Called when an upload has ended and its row is gone, and again when a part of it ends later. A server that stores
 * parts as files accepts a running part of an ended upload and lists it nowhere, so that nothing would count it. The
 * first call removes parts that arrived before it, the second call later ones.
 */
export async function clearLateParts(
  client: Pick<S3Client, 'abortUpload'>,
  upload: Upload,
  names: Names = [upload.upstreamId],
): Promise<void> {
  // In another bucket, the part uses no disk of the Space.
  if (upload.credentialSet === null) await abortAll(client, upload, names);
}

export interface ForgottenOptions {
  readonly afterSeconds: number;
  readonly now: () => Date;
  readonly log: Logger;
  readonly onGivenUp?: () => void;
}

/** Aborts uploads that were not completed within a day, all of them, a page at a time, the oldest first. */
export async function abortForgotten(
  registry: Registry,
  client: S3Client,
  { afterSeconds, now, log, onGivenUp = () => undefined }: ForgottenOptions,
  stopping: AbortSignal,
): Promise<void> {
  const uploads = ending(registry);
  let last: { readonly createdAt: string; readonly id: string } | undefined;
  do {
    const rows: readonly (OpenUpload & { readonly at: string })[] = await registry.lookup.run(
      'find forgotten uploads',
      `SELECT ${UPLOAD_COLUMNS}, created_at::text AS at FROM broker.object_upload
       WHERE ${isOlder('$1', '$2')}
         AND (upstream_id <> '' OR credential_set IS NOT NULL)
         AND ($3::timestamptz IS NULL OR (created_at, id) > ($3, $4))
       ORDER BY created_at, id LIMIT ${PAGE}`,
      [afterSeconds, now(), last?.createdAt ?? null, last?.id ?? ''],
    );
    for (const upload of rows) {
      if (stopping.aborted) return;
      try {
        await giveUp(client, uploads, upload);
        onGivenUp();
      } catch (error) {
        // The next round tries again; this upload must not delay the later ones.
        log.warn({ err: error }, 'forgotten upload not aborted');
      }
    }
    const end = rows.at(-1);
    last = rows.length < PAGE || end === undefined ? undefined : { createdAt: end.at, id: end.id };
  } while (last !== undefined);
}

/** Aborts every open upload under a prefix whose objects are being deleted. May be interrupted and repeated. */
export async function abortUnder(registry: Registry, client: S3Client, prefix: string): Promise<void> {
  const uploads = ending(registry);
  for (;;) {
    const rows = await registry.lookup.run<OpenUpload>(
      'find uploads under place',
      `SELECT ${UPLOAD_COLUMNS} FROM broker.object_upload WHERE starts_with(room, $1) LIMIT ${PAGE}`,
      [prefix],
    );
    if (rows.length === 0) return;
    // Nobody may use it any more, so that what a running completion makes of it is deleted, too.
    for (const upload of rows) await giveUp(client, uploads, upload, true);
  }
}

const NONE = new SharedSlots({ total: 1, perKey: 1 });

/** Access to the rows of uploads that can only end them. */
function ending(registry: Registry): Ends {
  return createUploads({ registry, most: 0, records: NONE });
}

const LISTED = 1_000;

export interface StrayOptions {
  readonly afterSeconds: number;
  readonly now: () => Date;
  readonly log: Logger;
}

/**
 * Aborts uploads in the Space's bucket that no row names, since a broker died between the upstream's answer and the row.
 * Only old ones are aborted, since a recent one may still be named, and only those under prefixes of this Space.
 */
export async function abortStrays(
  registry: Registry,
  client: Pick<S3Client, 'listUploads' | 'abortUpload'>,
  { afterSeconds, now, log }: StrayOptions,
  stopping: AbortSignal,
): Promise<void> {
  const before = now().getTime() - afterSeconds * 1_000;
  let after: string | undefined;
  do {
    const page = await client.listUploads({ prefix: 'c/', after, limit: LISTED }, { signal: stopping });
    const old = page.uploads.filter(
      ({ key, initiated }) => isUnderPrefix(key) && initiated.getTime() < before,
    );
    const strays = old.length === 0 ? new Set<string>() : await straysOf(registry, old);
    for (const { key, id } of old) {
      if (!strays.has(id)) continue;
      try {
        await client.abortUpload(key, id, { signal: stopping });
      } catch (error) {
        log.warn({ err: error }, 'stray upload not aborted');
      }
    }
    after = page.next;
  } while (after !== undefined && !stopping.aborted);
}

/** Uploads under this registry's prefixes without a row; another Space may use the same bucket. */
async function straysOf(
  registry: Registry,
  uploads: readonly { readonly key: string; readonly id: string }[],
): Promise<Set<string>> {
  // No look-up: it compares each with all prefixes, which takes its time.
  const rows = await registry.transaction((session) =>
    session.read<{ id: string }>(
      'find stray uploads',
      `SELECT u.id FROM unnest($1::text[], $2::text[]) AS u(id, key)
     WHERE EXISTS (SELECT FROM (SELECT place FROM broker.store UNION ALL SELECT place FROM broker.dead_place) AS ours
                   WHERE starts_with(u.key, ours.place))
       AND NOT EXISTS (SELECT FROM broker.object_upload o WHERE o.upstream_id = u.id)`,
      [uploads.map(({ id }) => id), uploads.map(({ key }) => key)],
    ),
  );
  return new Set(rows.map(({ id }) => id));
}
