import type { Logger } from '@space/broker-kit';
import { UNANSWERED_SECONDS } from '../quota/allowance.ts';
import type { Registry } from '../quota/rows.ts';
import type { S3Client } from '../upstream/types.ts';
import { forgetUnbegun, isOlder } from './uploads.ts';

/** Seconds after which a server that has failed shows what it did all the same. */
const FAILED_SECONDS = 60;
const KEYS = 100;
const LISTED = 1_000;

type Lists = Pick<S3Client, 'listUploads'>;

/**
 * Ends uploads in the Space's bucket that the upstream has not begun, so that they stop counting. The upstream is asked once
 * it can begin them no more. As many rows as it has uploads of their key that no row names stay, until those are aborted
 * as strays: it has begun them, and the answer was lost.
 */
export async function endUnbegun(
  registry: Registry,
  client: Lists,
  { now, log }: { readonly now: () => Date; readonly log: Logger },
  stopping: AbortSignal,
): Promise<void> {
  let after = '';
  for (;;) {
    const rows = await registry.lookup.run<{ key: string; ids: readonly string[] }>(
      'find unbegun uploads',
      `SELECT key, array_agg(id) AS ids FROM broker.object_upload
       WHERE upstream_id = '' AND credential_set IS NULL AND key COLLATE "C" > $3
         AND ${isOlder('$1', '$2')} AND (doubted = 0 OR ${isOlder('$4', '$2')})
       GROUP BY key ORDER BY key COLLATE "C" LIMIT ${KEYS}`,
      [FAILED_SECONDS, now(), after, UNANSWERED_SECONDS],
    );
    for (const { key, ids } of rows) {
      if (stopping.aborted) return;
      try {
        const begun = await strayCount(registry, client, key, stopping);
        await forgetUnbegun(registry.lookup, ids.slice(begun));
      } catch (error) {
        // The next round tries again; this key must not delay the later ones.
        log.warn({ err: error }, 'the S3 server could not be asked for uploads of a key');
      }
      after = key;
    }
    if (rows.length < KEYS) return;
  }
}

/** How many uploads of the key the upstream has that no row names; infinite if it has too many to tell. */
async function strayCount(
  registry: Registry,
  client: Lists,
  key: string,
  signal: AbortSignal,
): Promise<number> {
  // Keys that begin with this one are listed, too.
  const { uploads, next } = await client.listUploads({ prefix: key, limit: LISTED }, { signal });
  if (next !== undefined) return Number.POSITIVE_INFINITY;
  const there = uploads.filter((one) => one.key === key).map(({ id }) => id);
  if (there.length === 0) return 0;
  const known = await registry.lookup.run(
    'find uploads by their id upstream',
    'SELECT 1 FROM broker.object_upload WHERE key = $1 AND upstream_id = ANY($2::text[])',
    [key, there],
  );
  return there.length - known.length;
}
