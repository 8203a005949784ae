import { ServiceError } from '@space/broker-kit';
import { BUCKETS, type Bucket, parsePrefix } from '../../objects/object-key.ts';
import type { ObjectStore } from '../../objects/types.ts';
import type { Cursors } from '../cursors.ts';
import { numberOf, writeHead } from '../exchange.ts';
import { S3Refusal } from './errors.ts';
import { listObjects, listObjectsV2, listUploads } from './lists.ts';
import { answer, type Handlers, xml } from './request.ts';

type Name =
  | 'ListBuckets'
  | 'HeadBucket'
  | 'CreateBucket'
  | 'GetBucketLocation'
  | 'GetBucketVersioning'
  | 'ListObjects'
  | 'ListObjectsV2'
  | 'ListMultipartUploads';

/** Operations on the two buckets, which always exist, and lists of their objects. */
export function bucketHandlers(store: ObjectStore, cursors: Cursors): Handlers<Name> {
  return {
    ListBuckets: async (admitted) => {
      const created = new Date(0).toISOString();
      const prefix = parsePrefix(admitted.query.get('prefix') ?? '');
      if (prefix === undefined) throw new ServiceError('invalid_request', 'prefix of buckets');
      const after = admitted.query.get('continuation-token') ?? '';
      const limit = numberOf(admitted.query.get('max-buckets'), BUCKETS.length, 1, 10_000);
      const rest = BUCKETS.filter((name) => name.startsWith(prefix) && name > after);
      const page = rest.slice(0, limit);
      const bucket = (name: Bucket) =>
        [
          'Bucket',
          [
            ['Name', name],
            ['CreationDate', created],
          ],
        ] as const;
      const owner = ['Owner', [['ID', 'space']]] as const;
      answer(admitted, 'ListAllMyBucketsResult', [
        owner,
        ['Buckets', page.map(bucket)],
        ['Prefix', prefix],
        ...(rest.length > page.length ? [['ContinuationToken', page.at(-1) ?? ''] as const] : []),
      ]);
    },
    HeadBucket: async ({ exchange }) => void writeHead(exchange, 200, { 'content-length': 0 }).end(),
    CreateBucket: async () => {
      throw new S3Refusal(
        'already_exists',
        { status: 409, code: 'BucketAlreadyOwnedByYou' },
        'bucket is there',
      );
    },
    GetBucketLocation: async (admitted) => answer(admitted, 'LocationConstraint', []),
    GetBucketVersioning: async (admitted) => answer(admitted, 'VersioningConfiguration', []),
    ListObjects: async (admitted) => xml(admitted, await listObjects(store, admitted)),
    ListObjectsV2: async (admitted) => xml(admitted, await listObjectsV2(store, cursors, admitted)),
    ListMultipartUploads: async (admitted) => xml(admitted, await listUploads(store, admitted)),
  };
}
