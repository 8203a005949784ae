import {
  at,
  type Case,
  gives,
  head,
  holds,
  MIB,
  type Params,
  put,
  refused,
  type Step,
  step,
} from './case.ts';
import { abort, begin, complete, finish, LEAST, part, parts, uploads } from './upload-steps.ts';

export const UPLOADS: readonly Case[] = [
  {
    name: 'an upload in parts is listed, completed, and gone then',
    steps: [
      begin('a', { ContentType: 'a/b', Metadata: { m: '1' } }),
      part('a', 1, { $bytes: LEAST }),
      part('a', 3, 'tail'),
      parts(
        'a',
        { UploadId: '{id}' },
        gives({
          Parts: [
            { PartNumber: 1, Size: LEAST },
            { PartNumber: 3, Size: 4 },
          ],
        }),
      ),
      uploads({}, [{ Key: at('a'), UploadId: '{id}' }]),
      head('a', {}, refused('404')),
      complete('a', [1, 3], gives({ ETag: { $match: '-2"$' }, Bucket: 'data', Key: at('a') })),
      head('a', {}, gives({ ContentLength: LEAST + 4, ContentType: 'a/b', Metadata: { m: '1' } })),
      uploads({}, null),
      parts('a', { UploadId: '{id}' }, refused('404 NoSuchUpload')),
    ],
  },
  {
    name: 'an upload of one small part is completed',
    steps: [begin('one'), part('one', 1, 'only'), complete('one', [1]), holds('one', 'only')],
  },
  {
    name: 'a part is replaced by one of its number',
    steps: [
      begin('twice'),
      part('twice', 1, 'old'),
      part('twice', 1, 'new'),
      complete('twice', [1]),
      holds('twice', 'new'),
    ],
  },
  {
    name: 'parts come in any order, and are put together by number',
    steps: [
      begin('order'),
      part('order', 2, 'end'),
      part('order', 1, { $bytes: LEAST }),
      complete('order', [1, 2]),
      step('GetObject', { Key: at('order'), Range: `bytes=${LEAST - 1}-` }, gives({ ContentLength: 4 })),
    ],
  },
  {
    name: 'a part that is not named at the end is no part',
    steps: [
      begin('some'),
      part('some', 1, 'kept'),
      part('some', 2, 'left out'),
      complete('some', [1]),
      holds('some', 'kept'),
    ],
  },
  {
    name: 'parts are listed in pages',
    steps: [
      begin('pages'),
      part('pages', 1, 'a'),
      part('pages', 5, 'b'),
      part('pages', 10_000, 'c'),
      parts(
        'pages',
        { UploadId: '{id}', MaxParts: 2 },
        {
          gives: { Parts: [{ PartNumber: 1 }, { PartNumber: 5 }], IsTruncated: true },
        },
      ),
      parts(
        'pages',
        { UploadId: '{id}', MaxParts: 2, PartNumberMarker: 5 },
        {
          gives: { Parts: [{ PartNumber: 10_000 }], IsTruncated: false },
        },
      ),
      parts('pages', { UploadId: '{id}', MaxParts: 0 }, gives({ Parts: null, IsTruncated: false })),
      abort('pages'),
      parts('pages', { UploadId: '{id}', MaxParts: 0 }, refused('404 NoSuchUpload')),
    ],
  },
  {
    name: 'uploads are listed in pages',
    steps: [
      ...['u/1', 'u/2', 'u/3'].map((key) => begin(key)),
      uploads({ MaxUploads: 2 }, [{ Key: at('u/1') }, { Key: at('u/2') }], {
        gives: { IsTruncated: true },
        keep: { key: 'NextKeyMarker', upload: 'NextUploadIdMarker' },
      }),
      uploads({ MaxUploads: 2, KeyMarker: '{key}', UploadIdMarker: '{upload}' }, [{ Key: at('u/3') }], {
        gives: { IsTruncated: false },
      }),
      uploads({ Prefix: at('u/2') }, [{ Key: at('u/2') }]),
      uploads({ KeyMarker: at('u/2') }, [{ Key: at('u/3') }]),
      ...[
        { KeyMarker: '../' },
        { KeyMarker: 'a\u0001' },
        { KeyMarker: '{key}', UploadIdMarker: 'other' },
      ].map((markers) => step('ListMultipartUploads', markers, refused('400 InvalidArgument'))),
    ],
  },
  {
    name: 'an upload belongs to one key',
    steps: [
      begin('b'),
      part('other', 1, 'x', refused('404 NoSuchUpload')),
      abort('other', refused('404 NoSuchUpload')),
      abort('b'),
      part('b', 1, 'x', refused('404 NoSuchUpload')),
      abort('b', refused('404 NoSuchUpload')),
    ],
  },
  {
    name: 'an upload is nobody else’s',
    steps: [
      begin('mine'),
      part('mine', 1, 'x'),
      ...(['neighbour', 'stranger'] as const).flatMap((as) => [
        part('mine', 1, 'y', { as, refused: '404 NoSuchUpload' }),
        parts('mine', { UploadId: '{id}' }, { as, refused: '404 NoSuchUpload' }),
        complete('mine', [1], { as, refused: '404 NoSuchUpload' }),
        abort('mine', { as, refused: '404 NoSuchUpload' }),
        uploads({}, null, { as }),
      ]),
      complete('mine', [1]),
      holds('mine', 'x'),
    ],
  },
  {
    name: 'an upload whose parts are too small is refused',
    steps: [
      begin('c'),
      part('c', 1, 'a'),
      part('c', 2, 'b'),
      complete('c', [1, 2], refused('400 EntityTooSmall')),
      abort('c'),
    ],
  },
  {
    name: 'an upload with a part that is unknown or another is refused',
    steps: [
      begin('c'),
      part('c', 1, 'a'),
      finish('c', [{ PartNumber: 1, ETag: '"x"' }], refused('400 InvalidPart')),
      finish('c', [{ PartNumber: 2, ETag: '{part1}' }], refused('400 InvalidPart')),
      complete('c', [1]),
      holds('c', 'a'),
    ],
  },
  {
    name: 'an upload with parts out of order, or twice, is refused',
    steps: [
      begin('c'),
      part('c', 1, 'a'),
      part('c', 2, 'b'),
      complete('c', [2, 1], refused('400 InvalidPartOrder')),
      complete('c', [1, 1], refused('400 InvalidPartOrder')),
      finish('c', [], refused('400')),
      abort('c'),
    ],
  },
  {
    name: 'a part with a number that is none is refused',
    steps: [
      begin('c'),
      ...[0, 10_001].map((number) => part('c', number, 'x', refused('400 InvalidArgument'))),
      abort('c'),
    ],
  },
  {
    name: 'an upload that is unknown is refused',
    steps: ['none', '../../a', ' ', '0'.repeat(500)].map((UploadId) =>
      step('UploadPart', { Key: at('a'), UploadId, PartNumber: 1, Body: 'x' }, refused('404 NoSuchUpload')),
    ),
  },
  ...['CRC32', 'CRC32C', 'CRC64NVME', 'SHA1', 'SHA256'].map((ChecksumAlgorithm) => ({
    name: `an upload in parts is verified by ${ChecksumAlgorithm}`,
    steps: [
      begin('sum', { ChecksumAlgorithm }),
      part('sum', 1, { $bytes: 70_000 }, {}, { ChecksumAlgorithm }),
      complete('sum', [1]),
      holds('sum', { $bytes: 70_000 }),
    ],
  })),
  {
    name: 'an upload is completed with the checksum of the object, which is not that of the document',
    steps: [
      begin('sum', { ChecksumAlgorithm: 'CRC32', ChecksumType: 'FULL_OBJECT' }),
      part('sum', 1, '123456789'),
      complete('sum', [1], {}, { ChecksumCRC32: 'y/Q5Jg==', ChecksumType: 'FULL_OBJECT' }),
      holds('sum', '123456789'),
    ],
  },
  {
    name: 'a part with a wrong checksum is not taken',
    steps: [
      begin('sum'),
      part('sum', 1, 'x', refused('400 BadDigest'), { ChecksumCRC32: 'AAAAAA==' }),
      parts('sum', { UploadId: '{id}' }, gives({ Parts: null })),
      abort('sum'),
    ],
  },
  {
    name: 'an upload is completed only where there is none, if that is asked',
    steps: [
      put('cond', 'old'),
      begin('cond'),
      part('cond', 1, 'new'),
      complete('cond', [1], refused('412 PreconditionFailed'), { IfNoneMatch: '*' }),
      holds('cond', 'old'),
      complete('cond', [1]),
      holds('cond', 'new'),
    ],
  },
  {
    name: 'an upload is completed only with the size that is said, if one is',
    steps: [
      begin('size'),
      part('size', 1, 'four'),
      complete('size', [1], refused('400 InvalidRequest'), { MpuObjectSize: 5 }),
      head('size', {}, refused('404')),
      complete('size', [1], {}, { MpuObjectSize: 4 }),
      holds('size', 'four'),
    ],
  },
  {
    name: 'parts are taken of other objects',
    steps: [
      put('source', { $bytes: 6 * MIB }),
      begin('copied'),
      copyPart(1, 'data/{home}/source'),
      copyPart(2, 'data/{home}/source', { CopySourceRange: 'bytes=10-19' }),
      complete('copied', [1, 2]),
      step(
        'GetObject',
        { Key: at('copied'), Range: `bytes=${6 * MIB}-` },
        gives({ Body: { $bytes: 10, $from: 10 } }),
      ),
    ],
  },
  {
    name: 'parts are taken only of what is there and one’s own',
    steps: [
      put('source', 'x'),
      begin('copied'),
      copyPart(1, 'data/{home}/never', {}, '404 NoSuchKey'),
      copyPart(1, 'space/{home}/source', {}, '404 NoSuchBucket'),
      copyPart(1, 'data/../{home}/source', {}, '400 InvalidArgument'),
      copyPart(1, 'data/{home}/source', { CopySourceIfMatch: '"x"' }, '412 PreconditionFailed'),
      copyPart(1, 'data/{home}/source', { CopySourceRange: 'bytes=5-9' }, '416 InvalidRange'),
      copyPart(1, 'data/{home}/source', { CopySourceRange: 'bytes=0' }, '400 InvalidArgument'),
      abort('copied'),
    ],
  },
];

function copyPart(PartNumber: number, CopySource: string, params: Params = {}, refusal?: string): Step {
  return step(
    'UploadPartCopy',
    { Key: at('copied'), UploadId: '{id}', PartNumber, CopySource, ...params },
    refusal === undefined ? { keep: { [`part${PartNumber}`]: 'CopyPartResult.ETag' } } : { refused: refusal },
  );
}
