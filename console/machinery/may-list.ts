import * as z from 'zod';
import { type Ask, KubernetesError } from '../kubernetes/client.ts';
import type { Reader } from './reader.ts';

const MOST = '500';

/** The items of a list; undefined where the person may not read it. */
export async function mayList<T extends z.ZodType>(
  { ask }: Pick<Reader, 'ask'>,
  item: T,
  { path, query }: Pick<Ask, 'path' | 'query'>,
): Promise<readonly z.infer<T>[] | undefined> {
  try {
    return z.object({ items: z.array(item) }).parse(await ask({ path, query: { limit: MOST, ...query } }))
      .items;
  } catch (error) {
    if (error instanceof KubernetesError && error.status === 403) return undefined;
    throw error;
  }
}
