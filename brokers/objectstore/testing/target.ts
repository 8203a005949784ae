import { Secret } from '@space/broker-kit';
import type { S3Server } from '../../../testing/s3.ts';
import type { Target } from '../upstream/target.ts';

/** A bucket of a test's S3 server, as a client of the broker's is told of it; by way of another address, if there is one. */
export function targetAt(
  { endpoint, region, accessKeyId, secretAccessKey }: S3Server,
  bucket: string,
  origin = endpoint,
): Target {
  return {
    ...{ origin, region, bucket, addressing: 'path' },
    accessKeyId: new Secret(accessKeyId),
    secretAccessKey: new Secret(secretAccessKey),
  };
}
