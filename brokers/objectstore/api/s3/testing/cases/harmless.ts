import { at, type Case, get, gives, head, holds, type Params, put, refused, step } from './case.ts';

/** Options that clients send although they are the default, or have no effect. */

const write = (what: string, params: Params): Case => ({
  name: `a write that asks for ${what} is done`,
  steps: [
    put('new', 'x', params),
    holds('new', 'x'),
    step('CreateMultipartUpload', { Key: at('parts'), ...params }, { keep: { id: 'UploadId' } }),
    step('AbortMultipartUpload', { Key: at('parts'), UploadId: '{id}' }),
  ],
});

const ACCOUNT = '111122223333';

export const HARMLESS: readonly Case[] = [
  write('encryption by the server', { ServerSideEncryption: 'AES256' }),
  write('a private ACL', { ACL: 'private' }),
  write("the owner's full control", { ACL: 'bucket-owner-full-control' }),
  write('the storage class that there is', { StorageClass: 'STANDARD' }),
  write('an account', { ExpectedBucketOwner: ACCOUNT }),
  write('paying', { RequestPayer: 'requester' }),
  {
    name: 'the owner of a bucket, and who pays, may be named in reads',
    steps: [
      put('there', 'x'),
      step('HeadBucket', { ExpectedBucketOwner: ACCOUNT }),
      holds('there', 'x', { RequestPayer: 'requester', ExpectedBucketOwner: ACCOUNT }),
    ],
  },
  {
    name: 'access control lists say that all is private, may be set to that, and to nothing else',
    steps: [
      put('there', 'x'),
      step(
        'GetBucketAcl',
        {},
        gives({ Grants: [{ Permission: 'FULL_CONTROL', Grantee: { Type: 'CanonicalUser' } }] }),
      ),
      step('PutBucketAcl', { ACL: 'private' }),
      step(
        'GetObjectAcl',
        { Key: at('there') },
        gives({ Owner: { ID: 'space' }, Grants: [{ Permission: 'FULL_CONTROL' }] }),
      ),
      step('PutObjectAcl', { Key: at('there'), ACL: 'private' }),
      step('PutObjectAcl', { Key: at('there'), ACL: 'public-read' }, refused('501 NotImplemented')),
      step('GetObjectAcl', { Key: at('absent') }, refused('404')),
      step('PutObjectAcl', { Key: at('absent'), ACL: 'private' }, refused('404')),
    ],
  },
  {
    name: 'an object has no tags',
    steps: [
      put('there', 'x'),
      step('GetObjectTagging', { Key: at('there') }, gives({ TagSet: [] })),
      step('GetObjectTagging', { Key: at('absent') }, refused('404')),
    ],
  },
  {
    name: 'headers of an answer are said by the query, and the object keeps its own',
    steps: [
      put('there', 'x', { ContentType: 'text/plain', CacheControl: 'max-age=5' }),
      get(
        'there',
        {
          ResponseContentType: 'text/html; charset=utf-8',
          ResponseContentDisposition: 'attachment; filename="a b.html"',
          ResponseContentLanguage: 'de',
          ResponseContentEncoding: 'identity',
          ResponseCacheControl: 'no-cache',
        },
        gives({
          Body: 'x',
          ContentType: 'text/html; charset=utf-8',
          ContentDisposition: 'attachment; filename="a b.html"',
          ContentLanguage: 'de',
          ContentEncoding: 'identity',
          CacheControl: 'no-cache',
        }),
      ),
      get('there', { ResponseContentType: 'text/ä' }, refused('400 InvalidArgument')),
      get('there', { ResponseContentType: 'a\r\nx: y' }, refused('400 InvalidArgument')),
      head('there', {}, gives({ ContentType: 'text/plain', CacheControl: 'max-age=5' })),
    ],
  },
  {
    name: 'when an object expires for caches is kept',
    steps: [
      put('there', 'x', { Expires: { $date: '2099-01-01T00:00:00Z' } }),
      head('there', {}, gives({ ExpiresString: 'Thu, 01 Jan 2099 00:00:00 GMT' })),
    ],
  },
  {
    name: 'a part of an object is read by its number',
    steps: [
      step('CreateMultipartUpload', { Key: at('p') }, { keep: { id: 'UploadId' } }),
      step(
        'UploadPart',
        { Key: at('p'), UploadId: '{id}', PartNumber: 1, Body: { $bytes: 5_242_880 } },
        { keep: { one: 'ETag' } },
      ),
      step(
        'UploadPart',
        { Key: at('p'), UploadId: '{id}', PartNumber: 2, Body: 'the end' },
        { keep: { two: 'ETag' } },
      ),
      step('CompleteMultipartUpload', {
        Key: at('p'),
        UploadId: '{id}',
        MultipartUpload: {
          Parts: [
            { PartNumber: 1, ETag: '{one}' },
            { PartNumber: 2, ETag: '{two}' },
          ],
        },
      }),
      get('p', { PartNumber: 2 }, gives({ Body: 'the end', PartsCount: 2 })),
      head('p', { PartNumber: 1 }, gives({ ContentLength: 5_242_880, PartsCount: 2 })),
      get('p', { PartNumber: 3 }, refused('416')),
      get('p', { PartNumber: 1, Range: 'bytes=0-0' }, refused('400 InvalidArgument')),
      put('whole', 'x'),
      holds('whole', 'x', { PartNumber: 1 }),
      step(
        'GetObjectAttributes',
        { Key: at('p'), ObjectAttributes: ['ETag', 'ObjectSize', 'ObjectParts', 'StorageClass'] },
        gives({ ObjectSize: 5_242_887, StorageClass: 'STANDARD', ObjectParts: { TotalPartsCount: 2 } }),
      ),
    ],
  },
  {
    name: 'a checksum is kept, and told to who asks',
    steps: [
      put('c', 'hello', { ChecksumAlgorithm: 'CRC32' }),
      head('c', { ChecksumMode: 'ENABLED' }, gives({ ChecksumCRC32: 'NhCmhg==' })),
      holds('c', 'hello', { ChecksumMode: 'ENABLED' }),
      holds('c', 'hell', { ChecksumMode: 'ENABLED', Range: 'bytes=0-3' }),
      step(
        'GetObjectAttributes',
        { Key: at('c'), ObjectAttributes: ['Checksum', 'ETag', 'ObjectSize'] },
        gives({
          Checksum: { ChecksumCRC32: 'NhCmhg==' },
          ETag: '5d41402abc4b2a76b9719d911017c592',
          ObjectSize: 5,
        }),
      ),
      step('GetObjectAttributes', { Key: at('absent'), ObjectAttributes: ['ETag'] }, refused('404')),
    ],
  },
];
