import { text } from 'node:stream/consumers';
import { expect, test } from 'vitest';
import { S3Error } from '../upstream/errors.ts';
import type { S3Client } from '../upstream/types.ts';
import { bringBack } from './bring-back.ts';
import { type Entry, labelOf } from './entry.ts';
import { NameTable } from './name-table.ts';
import type { Run } from './run.ts';

const entryOf = (key: string): Entry => ({
  ...{ key, etag: '"x"', size: 4, last_modified: '2026-11-23T18:00:00.000Z' },
  ...{ headers: {}, content: key, stored: 100 },
});
async function* all<T>(...items: readonly T[]): AsyncGenerator<T> {
  yield* items;
}

/** A bucket in memory whose server refuses some keys, and a backup that has the content of each. */
function runInto(refusalOf: (key: string) => S3Error | undefined) {
  const stored = new Map<string, string>();
  const put: S3Client['put'] = async (key, body) => {
    const failure = refusalOf(key);
    if (failure !== undefined) throw failure;
    stored.set(key, Buffer.isBuffer(body) ? body.toString() : await text(body.stream));
    return { etag: '"x"' };
  };
  const readContent: Run['vault']['readContent'] = (name, _, use) =>
    use(all(labelOf('test', entryOf(name)), Buffer.from('text')), { status: 200, headers: {} });
  const run = {
    ...{ space: 'test', atOnce: 2, signal: new AbortController().signal },
    clock: { now: () => new Date(), pause: async () => undefined },
    bucket: { put } as unknown as S3Client,
    vault: {
      readContent,
      nameOf: (name: string) => Buffer.from(name.padEnd(16)).toString('hex'),
    } as Run['vault'],
  };
  const chosen = {
    anchors: () => all(entryOf('anchor')),
    others: () => all(...['a', 'a/b', 'c'].map(entryOf)),
  };
  const restored = bringBack(run, chosen, {
    ...{ there: new NameTable(), keyOf: ({ key }) => key, otherwise: 'do something' },
  });
  return { restored, stored };
}

test.each(['ObjectParentIsFile', 'RequestHeaderSectionTooLarge', 'KeyTooLongError'])(
  'an object that the server refuses with %s keeps no other from being restored, and is told',
  async (code) => {
    const { restored, stored } = runInto((key) =>
      key === 'a/b' ? new S3Error('answered', 400, code) : undefined,
    );
    await expect(restored).rejects.toThrow(
      `the S3 server does not take 1 objects, a/b (${code}) for one, and all others are restored: do something`,
    );
    expect(Object.fromEntries(stored)).toEqual({ anchor: 'text', a: 'text', c: 'text' });
  },
);

test('a server that refuses the key of the Space ends the restore', async () => {
  const refusal = new S3Error('answered', 403, 'AccessDenied');
  const { restored, stored } = runInto(() => refusal);
  await expect(restored).rejects.toBe(refusal);
  expect(stored.size).toBe(0);
});
