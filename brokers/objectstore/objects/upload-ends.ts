import { createHash } from 'node:crypto';
import type { Registry } from '../quota/rows.ts';
import { S3Error } from '../upstream/errors.ts';

/** An upload's id here, and at the S3 server. */
interface Named {
  readonly id: string;
  readonly upstreamId: string;
}

/**
 * The ids under which the S3 server may have an upload, of which there are several if nobody knows how an earlier
 * completion has ended.
 */
export type Names = readonly [string, ...string[]];

export type Parts = readonly { readonly number: number; readonly etag: string }[];

type Take =
  | { readonly to: 'complete'; readonly etag: string | undefined }
  | { readonly to: 'abort'; readonly forced: boolean };

/** The right to end an upload, which one request has at a time, over all replicas. */
export interface UploadEnds {
  /**
   * Takes the right to complete the upload to an object with this entity tag, or to abort it. `forced` takes it from another
   * request. An upload that was to be aborted is only aborted from then on, and gone for a completion.
   */
  take(upload: Named, to: Take): Promise<Names | 'busy' | 'gone'>;
  /** Keeps the right for some time more. */
  keep(upload: Named): Promise<void>;
  /** Gives the right back; the server has the upload under this id, or under one that this was made of. */
  giveBack(upload: Named, name: string): Promise<void>;
}

/** Seconds after which a replica that has not kept its right is taken for dead. */
const TAKEN_SECONDS = 60;
const SUFFIX = '.inprogress';

/**
 * The id that versitygw gives an upload while it makes an object of it. When it dies in between, the parts are nowhere
 * else; it lists no such upload, and answers every further completion as if it had been successful.
 */
export function nameWhileCompleting(name: string, etag: string): string {
  return `${name}.${etag.replaceAll('"', '')}${SUFFIX}`;
}

const MD5 = /^"[0-9a-f]{32}"$/;

/** The entity tag that S3 gives an object of these parts; undefined if theirs have another form. */
export function etagOfParts(parts: Parts): string | undefined {
  if (parts.length === 0 || !parts.every(({ etag }) => MD5.test(etag))) return undefined;
  const digests = parts.map(({ etag }) => Buffer.from(etag.slice(1, -1), 'hex'));
  return `"${createHash('md5').update(Buffer.concat(digests)).digest('hex')}-${parts.length}"`;
}

function namesOf(last: string, upstreamId: string): Names {
  const names: [string, ...string[]] = [last];
  for (let name = last; name.length > upstreamId.length && name.endsWith(SUFFIX); names.push(name))
    name = name.slice(0, name.lastIndexOf('.', name.length - SUFFIX.length - 1));
  return names;
}

/**
 * Whether the S3 server has no upload of that name. Servers that give uploads no other names may call one that they have not
 * given an invalid one.
 */
export function isNoUpload(error: unknown, name: string, { upstreamId }: Pick<Named, 'upstreamId'>): boolean {
  if (!(error instanceof S3Error) || error.kind !== 'answered') return false;
  return error.code === 'NoSuchUpload' || (name !== upstreamId && [400, 404].includes(error.status));
}

export function uploadEnds(registry: Registry): UploadEnds {
  return {
    take: ({ id, upstreamId }, take) =>
      registry.transaction(async (session) => {
        const [row] = await session.run<{ last: string; aborted: boolean; taken: boolean }>(
          'look at end of upload',
          `SELECT coalesce(ending_as, upstream_id) AS last, aborted,
             ending_since IS NOT NULL AND ending_since > clock_timestamp() - make_interval(secs => $2) AS taken
           FROM broker.object_upload WHERE id = $1 FOR UPDATE`,
          [id, TAKEN_SECONDS],
        );
        const aborts = take.to === 'abort';
        // The server may have aborted it already: then versitygw calls a completion successful if there is any object.
        if (row === undefined || (row.aborted && !aborts)) return 'gone';
        if (row.taken && !(aborts && take.forced)) return 'busy';
        const etag = aborts ? undefined : take.etag;
        await session.run(
          'take end of upload',
          `UPDATE broker.object_upload SET ending_since = clock_timestamp(), ending_as = $2, aborted = aborted OR $3
           WHERE id = $1`,
          [id, etag === undefined ? row.last : nameWhileCompleting(row.last, etag), aborts],
        );
        return namesOf(row.last, upstreamId);
      }),
    keep: async ({ id }) => {
      await registry.lookup.run(
        'keep end of upload',
        'UPDATE broker.object_upload SET ending_since = clock_timestamp() WHERE id = $1',
        [id],
      );
    },
    giveBack: async ({ id }, name) => {
      await registry.lookup.run(
        'give back end of upload',
        'UPDATE broker.object_upload SET ending_since = NULL, ending_as = $2 WHERE id = $1',
        [id, name],
      );
    },
  };
}
