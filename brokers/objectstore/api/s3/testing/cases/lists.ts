import { createHash } from 'node:crypto';
import {
  at,
  type Case,
  gives,
  list,
  type Outcome,
  type Params,
  put,
  refused,
  type Step,
  step,
} from './case.ts';

const KEYS = ['a', 'b/1', 'b/2', 'c/d/e', 'f', 'g'];
const TREE: readonly Step[] = KEYS.map((key) => put(key, key));
const ALL = { Prefix: '{home}/' };
const keys = (names: readonly string[]) =>
  names.length === 0 ? null : names.map((name) => ({ Key: at(name) }));
const prefixes = (names: readonly string[]) =>
  names.length === 0 ? null : names.map((name) => ({ Prefix: at(name) }));

/** Pages of the tree, each from where the one before ended. */
function pages(MaxKeys: number): Case {
  const steps: Step[] = [];
  for (let i = 0; i < KEYS.length; i += MaxKeys) {
    const more = i + MaxKeys < KEYS.length;
    const names = KEYS.slice(i, i + MaxKeys);
    const token: Params = i === 0 ? {} : { ContinuationToken: '{next}' };
    const answer = { KeyCount: names.length, IsTruncated: more };
    steps.push(
      list({ ...ALL, MaxKeys, ...token }, names, {
        gives: more ? answer : { ...answer, NextContinuationToken: null },
        keep: more ? { next: 'NextContinuationToken' } : {},
      }),
    );
  }
  return { name: `a list comes in pages of ${MaxKeys}`, steps: [...TREE, ...steps] };
}

function buckets(params: Params, names: readonly string[], outcome: Outcome = {}): Step {
  const Buckets = names.map((Name) => ({ Name }));
  return { ...step('ListBuckets', {}, { ...outcome, gives: { Buckets, ...outcome.gives } }), with: params };
}

const REST = ['b/2', 'c/d/e', 'f', 'g'];

export const LISTS: readonly Case[] = [
  ...[1, 2, 3, 6, 1_000].map(pages),
  {
    name: 'a list rolls up by delimiter',
    steps: [
      ...TREE,
      list({ ...ALL, Delimiter: '/' }, ['a', 'f', 'g'], {
        gives: { CommonPrefixes: prefixes(['b/', 'c/']), KeyCount: 5, Delimiter: '/' },
      }),
      list({ Prefix: '{home}/b/', Delimiter: '/' }, ['b/1', 'b/2'], { gives: { CommonPrefixes: null } }),
      list({ Prefix: '{home}/c', Delimiter: '/' }, [], { gives: { CommonPrefixes: prefixes(['c/']) } }),
    ],
  },
  {
    name: 'a list that rolls up comes in pages',
    steps: [
      ...TREE,
      list({ ...ALL, Delimiter: '/', MaxKeys: 2 }, ['a'], {
        gives: { CommonPrefixes: prefixes(['b/']), IsTruncated: true },
        keep: { next: 'NextContinuationToken' },
      }),
      list({ ...ALL, Delimiter: '/', MaxKeys: 2, ContinuationToken: '{next}' }, ['f'], {
        gives: { CommonPrefixes: prefixes(['c/']), IsTruncated: true },
        keep: { next: 'NextContinuationToken' },
      }),
      list({ ...ALL, Delimiter: '/', MaxKeys: 2, ContinuationToken: '{next}' }, ['g'], {
        gives: { CommonPrefixes: null, IsTruncated: false },
      }),
    ],
  },
  {
    name: 'a list of the first version rolls up, and comes in pages',
    steps: [
      ...TREE,
      step(
        'ListObjects',
        { ...ALL, Delimiter: '/', MaxKeys: 2 },
        {
          gives: { Contents: keys(['a']), CommonPrefixes: prefixes(['b/']), IsTruncated: true },
          keep: { next: 'NextMarker' },
        },
      ),
      step(
        'ListObjects',
        { ...ALL, Delimiter: '/', Marker: '{next}' },
        gives({ Contents: keys(['f', 'g']), CommonPrefixes: prefixes(['c/']), IsTruncated: false }),
      ),
    ],
  },
  {
    name: 'a list of the first version goes on after the marker of the directory that it is of',
    steps: [
      ...['dir/', 'dir/a', 'dir/b/c', 'dir/b/d', 'dir/z'].map((key) => put(key, '')),
      step(
        'ListObjects',
        { Prefix: at('dir/'), Delimiter: '/', MaxKeys: 1 },
        { gives: { Contents: keys(['dir/']), IsTruncated: true }, keep: { next: 'NextMarker' } },
      ),
      ...[at('dir/'), '{next}'].map((Marker) =>
        step(
          'ListObjects',
          { Prefix: at('dir/'), Delimiter: '/', Marker },
          gives({ Contents: keys(['dir/a', 'dir/z']), CommonPrefixes: prefixes(['dir/b/']) }),
        ),
      ),
      step(
        'ListObjects',
        { Prefix: at('dir/a'), Delimiter: '/', Marker: at('dir/') },
        gives({ Contents: keys(['dir/a']) }),
      ),
      step(
        'ListObjects',
        { Prefix: at('dir/'), Delimiter: '/', Marker: at('dir/b/') },
        gives({ Contents: keys(['dir/z']), CommonPrefixes: null }),
      ),
    ],
  },
  {
    name: 'a list of the first version begins after its marker',
    steps: [...TREE, step('ListObjects', { ...ALL, Marker: at('b/1') }, gives({ Contents: keys(REST) }))],
  },
  {
    name: 'a list begins after a key, there or not',
    steps: [
      ...TREE,
      list({ ...ALL, StartAfter: at('b/1') }, REST),
      list({ ...ALL, StartAfter: at('b/11') }, REST),
      list({ ...ALL, StartAfter: at('zzz') }, []),
    ],
  },
  {
    name: 'a list that begins after a key goes on from page to page',
    steps: [
      ...TREE,
      list({ ...ALL, StartAfter: at('b/1'), MaxKeys: 2 }, ['b/2', 'c/d/e'], {
        keep: { next: 'NextContinuationToken' },
      }),
      list({ ...ALL, StartAfter: at('b/1'), ContinuationToken: '{next}' }, ['f', 'g']),
    ],
  },
  {
    name: 'a list has a prefix that may end within a name',
    steps: [
      put('pre/fix', 'x'),
      put('pre/fixed', 'x'),
      put('prefix', 'x'),
      list({ Prefix: at('pre') }, ['pre/fix', 'pre/fixed', 'prefix']),
      list({ Prefix: at('pre/fix') }, ['pre/fix', 'pre/fixed']),
      list({ Prefix: at('pre/fixed') }, ['pre/fixed']),
    ],
  },
  {
    name: 'a list is sorted by bytes',
    steps: [
      ...['~', 'ä', 'Z', 'a', '_', '0', '日', '-'].map((name) => put(name, 'x')),
      list(ALL, ['-', '0', 'Z', '_', 'a', '~', 'ä', '日']),
    ],
  },
  {
    name: 'a list tells size, etag and time',
    steps: [
      put('a', '12345'),
      step(
        'ListObjectsV2',
        { ...ALL, FetchOwner: true },
        gives({
          Contents: [
            {
              Size: 5,
              ETag: `"${createHash('md5').update('12345').digest('hex')}"`,
              LastModified: { $date: 'any' },
              StorageClass: 'STANDARD',
            },
          ],
        }),
      ),
    ],
  },
  {
    name: 'a list of none is empty, and so is one of no more than none',
    steps: [
      put('a', 'x'),
      list({ Prefix: at('never/') }, [], { gives: { KeyCount: 0, IsTruncated: false } }),
      list({ ...ALL, MaxKeys: 0 }, [], { gives: { KeyCount: 0, IsTruncated: false } }),
    ],
  },
  {
    name: 'a token serves nobody else, and no other list',
    steps: [
      ...TREE,
      list({ ...ALL, MaxKeys: 1 }, ['a'], { keep: { next: 'NextContinuationToken' } }),
      ...(['neighbour', 'stranger'] as const).map((as) =>
        step(
          'ListObjectsV2',
          { ...ALL, ContinuationToken: '{next}' },
          { as, refused: '400 InvalidArgument' },
        ),
      ),
      ...[
        { Prefix: '{home}' },
        { ...ALL, Delimiter: '/' },
        { ...ALL, Bucket: 'shared' },
        { ...ALL, ContinuationToken: 'x{next}' },
        { ...ALL, ContinuationToken: 'none' },
      ].map((other) =>
        step('ListObjectsV2', { ContinuationToken: '{next}', ...other }, refused('400 InvalidArgument')),
      ),
    ],
  },
  {
    name: 'a list with a prefix that climbs is refused',
    steps: ['../', '{home}/../', './', '/', '{home}//'].map((Prefix) =>
      step('ListObjectsV2', { Prefix }, refused('400 InvalidArgument')),
    ),
  },
  {
    name: 'a list with a limit that is none is refused',
    steps: [step('ListObjectsV2', { ...ALL, MaxKeys: -1 }, refused('400 InvalidArgument'))],
  },
  {
    name: 'the buckets are two, always there',
    steps: [
      buckets({}, ['data', 'shared']),
      step('HeadBucket'),
      step('HeadBucket', { Bucket: 'shared' }),
      step('GetBucketLocation'),
      step('GetBucketVersioning', {}, gives({ Status: null })),
    ],
  },
  {
    name: 'the buckets are listed by prefix and in pages',
    steps: [
      buckets({ Prefix: 'sh' }, ['shared']),
      buckets({ Prefix: 'x' }, []),
      buckets({ MaxBuckets: 1 }, ['data'], { keep: { next: 'ContinuationToken' } }),
      buckets({ MaxBuckets: 1, ContinuationToken: '{next}' }, ['shared'], gives({ ContinuationToken: null })),
    ],
  },
  {
    name: 'a bucket is neither made nor removed',
    steps: [
      step('CreateBucket', {}, refused('409 BucketAlreadyOwnedByYou')),
      step('CreateBucket', { Bucket: 'another' }, refused('404 NoSuchBucket')),
      step('DeleteBucket', {}, refused('405 MethodNotAllowed')),
    ],
  },
  {
    name: 'no other bucket is there',
    steps: ['space', 'other', 'datas'].flatMap((Bucket) => [
      step('HeadBucket', { Bucket }, refused('404')),
      step('ListObjectsV2', { Bucket }, refused('404 NoSuchBucket')),
      put('a', 'x', { Bucket }, refused('404 NoSuchBucket')),
    ]),
  },
];
