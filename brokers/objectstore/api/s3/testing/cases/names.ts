import { at, type Case, copy, get, gives, head, holds, put, refused, step } from './case.ts';

const GOOD = [
  'plain',
  'a/b/c',
  'with space',
  ' leading',
  'trailing ',
  'two  spaces',
  'ä/ö',
  'a\u0308',
  '日本/語.txt',
  '😀',
  'q\'uo"te',
  '<&>',
  ']]>',
  'a+b',
  '100%',
  '%41',
  'a?b#c',
  '(a)*!',
  'a:b@c=d,e;f$',
  '[x]{y}|z^`',
  '~tilde_under-dash.dot',
  'x'.repeat(200),
  `${'d/'.repeat(100)}deep`,
  '...',
  '.hidden',
  'c/0000',
  'data',
  '\u00a0',
  '\u200b',
  '\ufffd',
];

/** What is no key: see `docs/wire/objectstore-data.md`. */
const BAD = ['a//b', 'a\\b', 'a/./b', 'a/../b', 'a\u007fb', 'a\u0085b', 'a%2Fb', 'a%2e', 'a%00b'];
/** Nor can XML say these. */
const UNSAYABLE = ['a\u0001b', 'a\u000bb', 'a\uffffb'];

const named = (name: string): Case => ({
  name: `a key named ${JSON.stringify(name).slice(0, 40)} is stored, listed, read, copied and deleted`,
  steps: [
    put(name, name),
    holds(name, name),
    head(name, {}, gives({ ContentLength: Buffer.byteLength(name) })),
    step('ListObjectsV2', { Prefix: at(name) }, gives({ Contents: [{ Key: at(name) }] })),
    step(
      'ListObjectsV2',
      { Prefix: at(name), EncodingType: 'url' },
      gives({ Contents: [{ Key: { $decoded: at(name) } }] }),
    ),
    copy(name, `${name}.copy`),
    holds(`${name}.copy`, name),
    step(
      'DeleteObjects',
      { Delete: { Objects: [{ Key: at(name) }, { Key: at(`${name}.copy`) }] } },
      gives({ Deleted: [{ Key: at(name) }, { Key: at(`${name}.copy`) }], Errors: null }),
    ),
    head(name, {}, refused('404')),
  ],
});

export const NAMES: readonly Case[] = [
  ...GOOD.map(named),
  ...[...BAD, ...UNSAYABLE].map((name) => ({
    name: `a key named ${JSON.stringify(name)} is refused`,
    steps: [
      put(name, 'x', {}, refused('400 InvalidArgument')),
      get(name, {}, refused('400 InvalidArgument')),
      copy(name, 'to', {}, refused('400 InvalidArgument')),
      step(
        'DeleteObjects',
        { Delete: { Objects: [{ Key: at(name) }] } },
        UNSAYABLE.includes(name)
          ? refused('400 MalformedXML')
          : gives({ Deleted: null, Errors: [{ Code: 'InvalidArgument' }] }),
      ),
      step('ListObjectsV2', { Prefix: '{home}/' }, gives({ KeyCount: 0 })),
    ],
  })),
  {
    name: 'a key of 900 bytes is taken, one of 901 is not',
    steps: [
      step('PutObject', { Key: longKey(900), Body: 'x' }),
      step('GetObject', { Key: longKey(900) }, gives({ Body: 'x' })),
      step('PutObject', { Key: longKey(901), Body: 'x' }, refused('400 InvalidArgument')),
    ],
  },
  {
    name: 'a key cannot lie below another, where the S3 server keeps files',
    steps: [put('a', 'x'), put('a/b', 'y', {}, refused('409 OperationAborted')), holds('a', 'x')],
  },
];

/** Creates a key of exactly this many bytes with any case's home, which is eight bytes long; a segment may have 255. */
function longKey(size: number): string {
  return `{home}/${`${'k'.repeat(199)}/`.repeat(4)}${'k'.repeat(size - 809)}`;
}
