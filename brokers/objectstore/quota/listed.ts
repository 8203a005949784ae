import type { S3Client } from '../upstream/types.ts';
import { createEntryCount } from './charge.ts';

const PAGE = 1_000;

/** What the objects under a prefix count, page after page; each value is the sum so far. */
export async function* listedUnder(
  client: Pick<S3Client, 'list'>,
  prefix: string,
  entryBytes: number,
): AsyncGenerator<number, void, undefined> {
  const entries = createEntryCount();
  let bytes = 0;
  let token: string | undefined;
  do {
    const page = await client.list({ prefix, token, limit: PAGE });
    for (const { key, size } of page.objects) bytes += size + entryBytes * entries(key);
    token = page.next;
    yield bytes;
  } while (token !== undefined);
}
