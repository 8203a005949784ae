import { afterAll, beforeAll, expect, test } from 'vitest';
import { eventually } from '../../../testing/eventually.ts';
import { type Fixture, openFixture } from '../testing/fixture.ts';
import { createRecount } from './recount.ts';

let fixture: Fixture;
beforeAll(async () => {
  fixture = await openFixture();
});
afterAll(() => fixture?.close());

const prefixOf = (i: number) => `c/${i.toString(16).padStart(40, '0')}/`;
const noFlush = async () => undefined;

test('counts of Capsules with any number of objects take turns, and delay no other by more than a page', async () => {
  let isEndless = true;
  const listed = new Map<string, number>();
  const client = {
    list: async ({
      prefix,
      token = '',
    }: {
      readonly prefix: string;
      readonly token?: string | undefined;
    }) => {
      await new Promise((resolve) => setImmediate(resolve));
      listed.set(prefix, (listed.get(prefix) ?? 0) + 1);
      const objects = [{ key: `${prefix}s/${token}x`, size: 1, etag: '', modified: '' }];
      return { objects, prefixes: [], next: isEndless && prefix !== prefixOf(9) ? `${token}x` : undefined };
    },
    listParts: async () => ({ parts: [], next: undefined }),
  };
  const recount = createRecount({ registry: fixture.broker.context.connections, client, entryBytes: 1 });
  const count = (i: number) => recount({ capsulePrefix: prefixOf(i), quotaBytes: 1_000 }, noFlush);
  const large = Array.from({ length: 8 }, (_, i) => count(i));
  const pages = () => Array.from({ length: 8 }, (_, i) => listed.get(prefixOf(i)) ?? 0);
  await eventually(() => Math.max(...pages()) > 2, { what: 'counts of large Capsules' });
  expect(await Promise.race([count(9), new Promise((resolve) => setTimeout(resolve, 20_000, 'late'))])).toBe(
    true,
  );
  await eventually(() => Math.min(...pages()) > 2, { what: 'counts of all of them' });
  isEndless = false;
  expect(await Promise.all(large)).toEqual(Array(8).fill(true));
});
