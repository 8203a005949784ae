import { text } from 'node:stream/consumers';
import { describe, expect, test } from 'vitest';
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
function runInto(refusalOf: (key: string) => S3Error | undefined, keys = ['a', 'a/b', 'c']) {
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
    others: () => all(...keys.map(entryOf)),
  };
  const restored = bringBack(run, chosen, {
    ...{
      there: new NameTable(),
      keyOf: ({ key }) => key,
      records: 'completions/',
      otherwise: 'do something',
    },
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

test.each([413, 414, 431])(
  'an object that is refused with %d, and no code that S3 has, keeps no other from being restored',
  async (status) => {
    const { restored, stored } = runInto((key) =>
      key === 'a/b' ? new S3Error('answered', status, 'Unknown') : undefined,
    );
    await expect(restored).rejects.toThrow(
      `the S3 server does not take 1 objects, a/b (${status}) for one, and all others are restored: do something`,
    );
    expect([...stored.keys()].sort()).toEqual(['a', 'anchor', 'c']);
  },
);

describe('a server that fails again and again', () => {
  const ofCapsule = (count: number) => Array.from({ length: count }, (_, n) => `c/${n}`);
  const failure = () => new S3Error('answered', 500, 'InternalError');

  test.each([
    ['500 InternalError', failure],
    ['400 Unknown', () => new S3Error('answered', 400, 'Unknown')],
  ])('with some objects of Capsules (%s) restores all others, and is told', async (answer, failing) => {
    const { restored, stored } = runInto((key) => (/[13]$/.test(key) ? failing() : undefined), ofCapsule(5));
    await expect(restored).rejects.toThrow(
      new RegExp(`fails with 2 objects, c/[13] \\(${answer}\\) for one, and all others are restored: do`),
    );
    expect([...stored.keys()].sort()).toEqual(['anchor', 'c/0', 'c/2', 'c/4']);
  });

  test('is asked for such an object five times', async () => {
    let asked = 0;
    const { restored } = runInto((key) => {
      if (key !== 'c/1') return undefined;
      asked += 1;
      return failure();
    }, ofCapsule(2));
    await expect(restored).rejects.toThrow('c/1 (500 InternalError)');
    expect(asked).toBe(5);
  });

  test('with more objects than that ends the restore', async () => {
    const broken = failure();
    const { restored, stored } = runInto((key) => (key === 'anchor' ? undefined : broken), ofCapsule(100));
    await expect(restored).rejects.toBe(broken);
    expect([...stored.keys()]).toEqual(['anchor']);
  });

  test('with what is no Capsule’s ends the restore', async () => {
    const broken = failure();
    const { restored } = runInto((key) => (key === 'anchor' ? broken : undefined));
    await expect(restored).rejects.toBe(broken);
  });
});
