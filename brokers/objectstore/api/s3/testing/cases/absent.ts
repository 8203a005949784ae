import { at, type Case, get, head, holds, type Params, put, refused, step } from './case.ts';

const NO = refused('501 NotImplemented');

/** A call that is not offered in any state. */
const call = (name: string, params: Params = {}): Case => ({
  name: `${name} is not offered`,
  steps: [put('there', 'x'), step(name, params, NO), holds('there', 'x')],
});
const THERE = { Key: at('there') };

/** A write that requests an unsupported property: nothing is stored. */
const write = (what: string, params: Params): Case => ({
  name: `${what} of a new object is not offered`,
  steps: [
    put('new', 'x', params, NO),
    head('new', {}, refused('404')),
    step('CreateMultipartUpload', { Key: at('new'), ...params }, NO),
  ],
});

const DAY = { $date: '2099-01-01T00:00:00Z' };

/** What is refused by design, as listed in `docs/wire/objectstore-data.md`. */
export const ABSENT: readonly Case[] = [
  call('PutObjectAcl', { ...THERE, ACL: 'public-read' }),
  call('PutObjectTagging', { ...THERE, Tagging: { TagSet: [{ Key: 'a', Value: 'b' }] } }),
  call('DeleteObjectTagging', THERE),
  call('GetObjectTorrent', THERE),
  call('GetObjectLegalHold', THERE),
  call('PutObjectLegalHold', { ...THERE, LegalHold: { Status: 'ON' } }),
  call('GetObjectRetention', THERE),
  call('RestoreObject', { ...THERE, RestoreRequest: { Days: 1 } }),
  call('SelectObjectContent', {
    ...THERE,
    Expression: 'SELECT * FROM S3Object',
    ExpressionType: 'SQL',
    InputSerialization: { CSV: {} },
    OutputSerialization: { CSV: {} },
  }),
  call('ListObjectVersions'),
  call('PutBucketVersioning', { VersioningConfiguration: { Status: 'Enabled' } }),
  call('PutBucketAcl', { ACL: 'public-read' }),
  call('GetBucketPolicy'),
  call('PutBucketPolicy', { Policy: '{}' }),
  call('GetBucketCors'),
  call('GetBucketTagging'),
  call('GetBucketEncryption'),
  call('GetBucketLifecycleConfiguration'),
  call('GetBucketNotificationConfiguration'),
  call('GetBucketReplication'),
  call('GetBucketWebsite'),
  call('GetBucketLogging'),
  call('GetObjectLockConfiguration'),
  call('GetPublicAccessBlock'),
  write('a public ACL', { ACL: 'public-read' }),
  write('a grant to others', { GrantRead: 'uri=http://acs.amazonaws.com/groups/global/AllUsers' }),
  write('a storage class', { StorageClass: 'GLACIER' }),
  write('encryption by a key of AWS', { ServerSideEncryption: 'aws:kms' }),
  write('a lock', { ObjectLockMode: 'GOVERNANCE', ObjectLockRetainUntilDate: DAY }),
  write('a tag', { Tagging: 'a=b' }),
  write('a redirect', { WebsiteRedirectLocation: '/y' }),
  {
    name: 'a version is not offered in reads',
    steps: [
      put('there', 'x'),
      get('there', { VersionId: 'x' }, NO),
      head('there', { VersionId: 'x' }, refused('501')),
      step('DeleteObject', { ...THERE, VersionId: 'x' }, NO),
      holds('there', 'x'),
    ],
  },
  {
    name: 'delimiters other than a slash are not offered',
    steps: [
      step('ListObjectsV2', { Delimiter: '-' }, NO),
      step('ListObjects', { Delimiter: '//' }, NO),
      step('ListMultipartUploads', { Delimiter: '/' }, NO),
    ],
  },
];
