import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { encode, encodePath } from '../upstream/sigv4.ts';
import {
  type Bucket,
  decodePath,
  decodeQueryValue,
  decodeText,
  folderOf,
  isBucket,
  isMarker,
  isUnderPrefix,
  logicalKey,
  MAX_KEY_BYTES,
  parseKey,
  parsePrefix,
  physicalKey,
  prefixesOf,
} from './object-key.ts';

const place = (digit: string) => `c/${digit.repeat(40)}/`;
const prefixes = (capsule: string, app: string) =>
  prefixesOf(`${place(capsule)}a/${app.repeat(40)}/`, `${place(capsule)}s/`);

describe('a key', () => {
  test.each([
    ['', 'empty'],
    ['.', 'a dot'],
    ['..', 'two dots'],
    ['a/../b', 'climbing'],
    ['a/./b', 'standing still'],
    ['a//b', 'an empty segment'],
    ['/a', 'a slash first'],
    ['/', 'a slash alone'],
    ['a//', 'two slashes last'],
    ['../', 'climbing into a directory'],
    ['a/../', 'climbing to a directory'],
    ['a\\b', 'a backslash'],
    ['a\0b', 'NUL'],
    ['a\nb', 'a line end'],
    ['a\u0085b', 'C1'],
    ['a\u007f', 'DEL'],
    ['a\uffff', 'no character of XML'],
    ['a\ud800', 'half a surrogate pair'],
    ['a%2fb', 'an escaped slash, as text'],
    ['a%2Fb', 'an escaped slash, as text'],
    ['%2e%2e', 'escaped dots, as text'],
    ['a%5cb', 'an escaped backslash, as text'],
    ['a%00', 'an escaped NUL, as text'],
    ['a%252fb', 'an escaped escape, as text'],
    ['ä'.repeat(450) + 'x', '901 bytes'],
  ])('is not %j: %s', (text) => {
    expect(parseKey(text)).toBeUndefined();
  });

  test.each([
    'a',
    'a/b',
    'a/',
    'a/b/',
    'ä/ö.txt',
    '...',
    'a..b',
    '..a',
    'a b',
    '100%',
    '&<>"\'',
    '日本/語',
    'ä'.repeat(450),
    '+',
    '?#',
  ])('is %j', (text) => {
    expect(parseKey(text)).toBe(text);
  });

  test('may be 900 bytes, and no more', () => {
    expect(parseKey('x'.repeat(MAX_KEY_BYTES))).toBeDefined();
    expect(parseKey('x'.repeat(MAX_KEY_BYTES + 1))).toBeUndefined();
  });
});

describe('a path', () => {
  test.each([
    'a%2Fb',
    'a%2fb',
    'a b',
    'a"b',
    'a%',
    'a%2',
    'a%zz',
    'ä',
    '%c0%af',
    '%ed%a0%80',
    '%ff',
    '%f0%9f',
  ])('%j is not decoded', (raw) => {
    expect(decodePath(raw)).toBeUndefined();
  });

  test('keeps a byte order mark, without which two names would be one', () => {
    expect(decodePath('%EF%BB%BFa')).toBe('\ufeffa');
    expect(decodeQueryValue('%EF%BB%BFa')).toBe('\ufeffa');
  });

  test('of a query is decoded only if all of it is allowed', () => {
    for (const raw of ['a b', '"a', 'a"', 'a%zz', 'a%2', 'ä', '%ff'])
      expect(decodeQueryValue(raw)).toBeUndefined();
    expect(decodeQueryValue('a/b?c=d%2F')).toBe('a/b?c=d/');
  });

  test('is decoded once', () => {
    expect(decodePath('a%2525')).toBe('a%25');
    expect(decodePath('%C3%A4/b')).toBe('ä/b');
    expect(decodePath('a+b')).toBe('a+b');
  });

  test('of a query has no bare plus', () => {
    expect(decodeQueryValue('a+b')).toBeUndefined();
    expect(decodeQueryValue('a%2Bb%20c')).toBe('a+b c');
  });
});

test('an encoded key is decoded to the same key, also by other decoders', () => {
  const any = fc.string({ unit: 'binary', maxLength: 40 }).filter((text) => text.isWellFormed());
  fc.assert(
    fc.property(any, (text) => {
      if (!text.includes('\0')) expect(decodePath(encodePath(text))).toBe(text);
      expect(decodeQueryValue(encode(text))).toBe(text);
      expect(decodeURIComponent(encode(text))).toBe(text);
    }),
    { numRuns: 300 },
  );
});

test('no key leaves its prefix, whichever program reads it', () => {
  const segment = fc.oneof(
    fc.constantFrom('.', '..', '', '%2e%2e', '%2F', '\\', '..;', 'c', 'a', 's', '1'.repeat(40)),
    fc.string({ unit: 'binary', maxLength: 6 }),
  );
  const bucket = fc.constantFrom<Bucket>('data', 'shared');
  fc.assert(
    fc.property(fc.array(segment, { maxLength: 6 }), bucket, (segments, where) => {
      const key = parseKey(segments.join('/'));
      if (key === undefined) return;
      const mine = prefixes('1', '2');
      const physical = physicalKey(mine, where, key);
      // A reader of URLs normalises dots and backslashes, also escaped ones; one of files climbs.
      const url = new URL(`https://s3.example.net/space/${encodePath(physical)}`);
      expect(decodeURIComponent(url.pathname)).toBe(`/space/${physical}`);
      expect(physical.startsWith(mine[where])).toBe(true);
      expect(logicalKey(mine, where, physical)).toBe(key);
      expect(logicalKey(prefixes('1', '3'), 'data', physical)).toBeUndefined();
      expect(logicalKey(prefixes('2', '2'), where, physical)).toBeUndefined();
    }),
    { numRuns: 5_000 },
  );
});

test('a prefix may end within a segment, and may not leave its parent', () => {
  for (const text of ['', 'a', 'a/', 'a/b', '.', 'a/..']) expect(parsePrefix(text)).toBe(text);
  for (const text of ['/', 'a//', '../', 'a/../b', './a', 'a\\']) expect(parsePrefix(text)).toBeUndefined();
});

test('a prefix consists of parts that the broker created', () => {
  expect(() => prefixesOf(`${place('1')}a/2/`, `${place('1')}s/`)).toThrow();
  expect(() => prefixesOf('', `${place('1')}s/`)).toThrow();
  const [data, shared] = [`${place('1')}a/${'2'.repeat(40)}/`, `${place('1')}s/`];
  expect(prefixesOf(data, shared)).toEqual({ data, shared });
  for (const other of ['', `x${shared}`, `${shared}x`, place('1'), `${place('1')}a/`]) {
    expect(() => prefixesOf(data, other)).toThrow('not a prefix of ours');
    expect(() => prefixesOf(other, shared)).toThrow('not a prefix of ours');
  }
});

test('a tenant has only the keys of the bucket below a prefix that the broker created', () => {
  const [data, shared] = [`${place('1')}a/${'2'.repeat(40)}/`, `${place('1')}s/`];
  for (const prefix of [data, shared]) {
    expect(isUnderPrefix(`${prefix}x`)).toBe(true);
    expect(isUnderPrefix(prefix)).toBe(false);
    expect(isUnderPrefix(`x/${prefix}x`)).toBe(false);
    expect(folderOf(`${prefix}x`)).toBeUndefined();
    expect(folderOf(`${prefix}x/`)).toBeUndefined();
    expect(folderOf(`${prefix}x/y`)).toBe(`${prefix}x/`);
    expect(folderOf(`${prefix}x/y/z`)).toBe(`${prefix}x/y/`);
    expect(folderOf(`${prefix}x\n/y`)).toBe(`${prefix}x\n/`);
    expect(folderOf(`x/${prefix}x/y`)).toBeUndefined();
  }
});

test('a caller has two buckets, and directories are marked by a slash', () => {
  expect(['data', 'shared', '', 'Data', 'other'].map((name) => isBucket(name))).toEqual([
    ...[true, true],
    ...[false, false, false],
  ]);
  expect(isMarker(parseKey('a/')!)).toBe(true);
  expect(isMarker(parseKey('a')!)).toBe(false);
});

test('an escaped text is decoded as its bytes are in UTF-8, or not at all', () => {
  const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  const expected = (bytes: Uint8Array) => {
    try {
      return utf8.decode(bytes);
    } catch {
      return undefined;
    }
  };
  const lead = fc.constantFrom(
    0xc0,
    0xc1,
    0xc3,
    0xe0,
    0xed,
    0xef,
    0xf0,
    0xf4,
    0xf5,
    0xff,
    0xbb,
    0xbf,
    0x80,
    0x9f,
    0xa0,
  );
  const bytes = fc.array(fc.oneof(fc.integer({ min: 0, max: 255 }), lead), { maxLength: 6 });
  fc.assert(
    fc.property(bytes, fc.boolean(), (all, isUpper) => {
      const hex = Buffer.from(all).toString('hex').replace(/../g, '%$&');
      const raw = isUpper ? hex.toUpperCase() : hex;
      expect(decodeText(raw)).toBe(expected(Uint8Array.from(all)));
      expect(decodeQueryValue(raw)).toBe(expected(Uint8Array.from(all)));
    }),
    { numRuns: 5_000 },
  );
});
