import { expect, it } from 'vitest';
import * as z from 'zod';
import { type Ask, KubernetesError } from '../kubernetes/client.ts';
import { MOST_ITEMS, mayList } from './may-list.ts';

const item = z.object({ name: z.string() });

/** An API server whose list has so many items, and which fails from an item on. */
const api = (count: number, failsFrom = Number.POSITIVE_INFINITY) => {
  const asked: Record<string, string>[] = [];
  const ask = async ({ query = {} }: Ask) => {
    asked.push(query);
    const from = Number(query['continue'] ?? 0);
    const end = Math.min(from + Number(query['limit']), count);
    if (from >= failsFrom) throw new KubernetesError(410, 'Expired', 'the list is too old');
    const items = Array.from({ length: end - from }, (_, index) => ({ name: `n${from + index}` }));
    return { metadata: end < count ? { continue: String(end) } : {}, items };
  };
  return { ask, asked };
};

it('reads a list in pages, each with the same selection', async () => {
  const { ask, asked } = api(501);
  const list = await mayList({ ask }, item, { path: '/x', query: { labelSelector: 'a' } });
  expect([list?.items.length, list?.items.at(-1), list?.isCut]).toEqual([501, { name: 'n500' }, false]);
  expect(asked.map((query) => [query['labelSelector'], query['continue']])).toEqual([
    ['a', undefined],
    ['a', '200'],
    ['a', '400'],
  ]);
});

it('reads a bounded number of items, and reports whether there are more', async () => {
  const whole = await mayList(api(MOST_ITEMS), item, { path: '/x' });
  expect([whole?.items.length, whole?.isCut]).toEqual([MOST_ITEMS, false]);
  const cut = await mayList(api(MOST_ITEMS + 1), item, { path: '/x' });
  expect([cut?.items.length, cut?.isCut]).toEqual([MOST_ITEMS, true]);
});

it('shows no part of a list as the whole', async () => {
  await expect(mayList(api(1_000, 500), item, { path: '/x' })).rejects.toThrow('410');
});
