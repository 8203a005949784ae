import { at, type Case, copy, get, gives, head, holds, put, refused, step } from './case.ts';

const from = (CopySource: string, code: string): Case => ({
  name: `a copy of ${JSON.stringify(CopySource)} is refused`,
  steps: [
    put('there', 'x'),
    step('CopyObject', { Key: at('to'), CopySource }, refused(code)),
    head('to', {}, refused('404')),
  ],
});

/** Copies, and the isolation that they respect. */
export const COPIES: readonly Case[] = [
  {
    name: 'a copy keeps metadata and type',
    steps: [
      put('a', 'x', { Metadata: { a: '1' }, ContentType: 'text/plain', CacheControl: 'no-store' }),
      copy('a', 'b', {}, gives({ CopyObjectResult: { ETag: { $match: '^"[0-9a-f]{32}"$' } } })),
      head('b', {}, gives({ Metadata: { a: '1' }, ContentType: 'text/plain', CacheControl: 'no-store' })),
    ],
  },
  {
    name: 'a copy replaces metadata and type',
    steps: [
      put('a', 'x', { Metadata: { a: '1' }, ContentType: 'text/plain' }),
      copy('a', 'b', { MetadataDirective: 'REPLACE', Metadata: { b: '2' }, ContentType: 'text/css' }),
      head('b', {}, gives({ Metadata: { a: null, b: '2' }, ContentType: 'text/css' })),
      head('a', {}, gives({ Metadata: { a: '1' }, ContentType: 'text/plain' })),
    ],
  },
  {
    name: 'a copy onto itself replaces metadata alone',
    steps: [
      put('a', { $bytes: 5_000 }, { Metadata: { a: '1' } }),
      copy('a', 'a', { MetadataDirective: 'REPLACE', Metadata: { b: '2' } }),
      get('a', {}, gives({ Metadata: { a: null, b: '2' }, Body: { $bytes: 5_000 } })),
    ],
  },
  {
    name: 'a copy onto itself that changes nothing is refused',
    steps: [put('a', 'x'), copy('a', 'a', {}, refused('400 InvalidArgument')), holds('a', 'x')],
  },
  {
    name: 'a copy overwrites, and its source may go',
    steps: [
      put('a', 'new'),
      put('b', 'old and longer'),
      copy('a', 'b'),
      step('DeleteObject', { Key: at('a') }),
      holds('b', 'new'),
    ],
  },
  {
    name: 'a copy goes between the two buckets, and a neighbour sees it there',
    steps: [
      put('both', 'x'),
      copy('both', 'both', { Bucket: 'shared' }),
      get('both', { Bucket: 'shared' }, { as: 'neighbour', gives: { Body: 'x' } }),
      get('both', { Bucket: 'shared' }, { as: 'stranger', refused: '404 NoSuchKey' }),
      step('CopyObject', { Key: at('back'), CopySource: 'shared/{home}/both' }),
      holds('back', 'x'),
    ],
  },
  {
    name: 'a copy may be named with a slash before its bucket',
    steps: [
      put('a', 'x'),
      step('CopyObject', { Key: at('b'), CopySource: '/data/{home}/a' }),
      holds('b', 'x'),
    ],
  },
  {
    name: 'a large object is copied',
    steps: [put('a', { $bytes: 3_000_001 }), copy('a', 'b'), holds('b', { $bytes: 3_000_001 })],
  },
  from('data/{home}/never', '404 NoSuchKey'),
  from('shared/{home}/there', '404 NoSuchKey'),
  from('space/{home}/there', '404 NoSuchBucket'),
  from('data/../data/{home}/there', '400 InvalidArgument'),
  from('data//{home}/there', '400 InvalidArgument'),
  from('data/{home}/there?versionId=1', '404 NoSuchBucket'),
  {
    name: 'nobody reads, lists, copies, changes or deletes what is another Assistant’s',
    steps: (['neighbour', 'stranger'] as const).flatMap((as) => [
      put('mine', 'x'),
      get('mine', {}, { as, refused: '404 NoSuchKey' }),
      head('mine', {}, { as, refused: '404' }),
      step('ListObjectsV2', { Prefix: '{home}/' }, { as, gives: { KeyCount: 0 } }),
      copy('mine', 'stolen', {}, { as, refused: '404 NoSuchKey' }),
      put('mine', 'changed', {}, { as }),
      step('DeleteObject', { Key: at('mine') }, { as }),
      step('DeleteObjects', { Delete: { Objects: [{ Key: at('mine') }] } }, { as }),
      holds('mine', 'x'),
    ]),
  },
];
