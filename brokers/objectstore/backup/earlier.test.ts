import fc from 'fast-check';
import { expect, test } from 'vitest';
import { followed } from './earlier.ts';
import type { Entry } from './entry.ts';
import { BackupError, damagedPoint } from './errors.ts';

const entry = (key: string, etag = ''): Entry => ({
  ...{ key, etag, size: 0, last_modified: '', headers: {}, content: '', stored: 0 },
});

async function* entries(keys: readonly string[], failure?: Error): AsyncGenerator<Entry> {
  for (const key of keys) yield entry(key);
  if (failure !== undefined) throw failure;
}

const inBytes = (keys: ReadonlySet<string>) =>
  [...keys].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
const KEYS = fc.uniqueArray(fc.string({ unit: 'grapheme', minLength: 1, maxLength: 3 }), { maxLength: 30 });

test('of two lists in the order of S3, each key of both is found', async () => {
  await fc.assert(
    fc.asyncProperty(KEYS, KEYS, KEYS, async (both, before, now) => {
      const there = new Set([...both, ...before]);
      const earlier = followed(entries(inBytes(there)));
      for (const key of inBytes(new Set([...both, ...now])))
        expect((await earlier.find(key))?.key).toBe(there.has(key) ? key : undefined);
    }),
  );
});

test('in any other order, no entry of another key is found', async () => {
  await fc.assert(
    fc.asyncProperty(KEYS, KEYS, async (before, now) => {
      const earlier = followed(entries(before));
      for (const key of now) expect([key, undefined]).toContain((await earlier.find(key))?.key);
    }),
  );
});

test('the rest of a damaged point is not found, and any other failure is told', async () => {
  const damaged = followed(entries(['a', 'b'], damagedPoint('p')));
  expect(await damaged.find('a')).toMatchObject({ key: 'a' });
  expect(await damaged.find('c')).toBeUndefined();
  expect(await damaged.find('d')).toBeUndefined();
  const foreign = followed(entries(['a'], new BackupError('another Space')));
  await expect(foreign.find('c')).rejects.toThrow('another Space');
});

test('closing ends the reading of the point', async () => {
  let isClosed = false;
  async function* all() {
    try {
      yield* entries(['a', 'b']);
    } finally {
      isClosed = true;
    }
  }
  const earlier = followed(all());
  await earlier.find('a');
  await earlier.close();
  expect(isClosed).toBe(true);
});
