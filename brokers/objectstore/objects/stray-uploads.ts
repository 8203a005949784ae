import type { Logger } from '@space/broker-kit';
import type { Registry } from '../quota/rows.ts';
import type { S3Client } from '../upstream/client.ts';
import { isPlaced } from './prefix.ts';

const PAGE = 1_000;

export interface StrayOptions {
  readonly afterSeconds: number;
  readonly now: () => Date;
  readonly log: Logger;
}

/**
 * Aborts uploads of the Space's bucket that no row tells of: a broker that died between the upstream's answer and its row
 * leaves such a one. Only old ones, since a young one may get its row in a moment, and only in places of this Space.
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
    const page = await client.listUploads({ prefix: 'c/', after, limit: PAGE }, { signal: stopping });
    const old = page.uploads.filter(({ key, initiated }) => isPlaced(key) && initiated.getTime() < before);
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

/** Which of them lie in places of this registry, without a row of theirs: another Space may be in the same bucket. */
async function straysOf(
  registry: Registry,
  uploads: readonly { readonly key: string; readonly id: string }[],
): Promise<Set<string>> {
  const rows = await registry.lookup.run<{ id: string }>(
    'find stray uploads',
    `SELECT u.id FROM unnest($1::text[], $2::text[]) AS u(id, key)
     WHERE EXISTS (SELECT FROM (SELECT place FROM broker.store UNION ALL SELECT place FROM broker.dead_place) AS ours
                   WHERE starts_with(u.key, ours.place))
       AND NOT EXISTS (SELECT FROM broker.object_upload o WHERE o.upstream_id = u.id)`,
    [uploads.map(({ id }) => id), uploads.map(({ key }) => key)],
  );
  return new Set(rows.map(({ id }) => id));
}
