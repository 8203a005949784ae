import * as z from 'zod';
import { type Ask, ifAllowed } from '../kubernetes/client.ts';
import type { Reader } from './reader.ts';

/** Small, since a node alone may have 20 KiB. */
const PAGE = 200;
const MOST_PAGES = 50;
/** The most items that are read of a list. */
export const MOST_ITEMS = PAGE * MOST_PAGES;

export interface Listed<T> {
  readonly items: readonly T[];
  /** Whether the list has more items than are read. */
  readonly isCut: boolean;
}

const metadata = z.object({ continue: z.string().default('') }).default({ continue: '' });

/** The items of a list; undefined where the person may not read it. */
export async function mayList<T extends z.ZodType>(
  { ask }: Pick<Reader, 'ask'>,
  item: T,
  { path, query }: Pick<Ask, 'path' | 'query'>,
): Promise<Listed<z.infer<T>> | undefined> {
  const answer = z.object({ metadata, items: z.array(item) });
  const items: z.infer<T>[] = [];
  let rest = '';
  for (let page = 0; page < MOST_PAGES; page += 1) {
    const from: Record<string, string> = rest === '' ? {} : { continue: rest };
    const given = await ifAllowed(ask({ path, query: { limit: String(PAGE), ...query, ...from } }));
    if (given === undefined) return undefined;
    const part = answer.parse(given);
    items.push(...part.items);
    rest = part.metadata.continue;
    if (rest === '') break;
  }
  return { items, isCut: rest !== '' };
}

/** The same list of other items. */
export const mapped = <T, U>(list: Listed<T> | undefined, to: (item: T) => U): Listed<U> | undefined =>
  list && { ...list, items: list.items.map(to) };
