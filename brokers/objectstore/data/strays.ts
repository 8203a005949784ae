import type { Logger } from '@space/broker-kit';
import type { S3Client } from '../upstream/client.ts';
import { isPlaced } from './address.ts';
import type { Registry } from './quota/rows.ts';

const PAGE = 1_000;

export interface StrayOptions {
  readonly afterSeconds: number;
  readonly now: () => Date;
  readonly log: Logger;
}

/**
 * Aborts uploads of the Space's bucket that no row tells of: a broker that died between the upstream's answer and its row
 * leaves such a one. Only old ones, since a young one may get its row in a moment, and only under places of ours.
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
    const known = old.length === 0 ? new Set<string>() : await knownOf(registry, old);
    for (const { key, id } of old) {
      if (known.has(id)) continue;
      try {
        await client.abortUpload(key, id, { signal: stopping });
      } catch (error) {
        log.warn({ err: error }, 'stray upload not aborted');
      }
    }
    after = page.next;
  } while (after !== undefined && !stopping.aborted);
}

async function knownOf(
  registry: Registry,
  uploads: readonly { readonly id: string }[],
): Promise<Set<string>> {
  const rows = await registry.lookup.run<{ id: string }>(
    'find uploads by upstream id',
    'SELECT upstream_id AS id FROM broker.object_upload WHERE upstream_id = ANY($1)',
    [uploads.map(({ id }) => id)],
  );
  return new Set(rows.map(({ id }) => id));
}
