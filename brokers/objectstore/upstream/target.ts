import { isIP } from 'node:net';
import type { Secret } from '@space/broker-kit';

/** A bucket and the key for it. */
export interface Target {
  /** Scheme, host and port, without a path: `https://s3.example.net`. */
  readonly origin: string;
  readonly region: string;
  readonly bucket: string;
  readonly addressing: 'path' | 'virtual-host';
  readonly accessKeyId: Secret<string>;
  readonly secretAccessKey: Secret<string>;
}

/** How to reach the bucket: the origin to connect to, the Host header, and the beginning of paths. */
export interface Route {
  readonly origin: string;
  readonly host: string;
  readonly path: string;
}

const ORIGIN = /^(https?):\/\/([a-z0-9](?:[-a-z0-9.]*[a-z0-9])?|\[[0-9a-f:]+\])(?::([1-9][0-9]{0,4}))?$/;
const BUCKET = /^[a-z0-9](?:[-.a-z0-9]{1,61}[a-z0-9])$/;

export function routeOf({
  origin,
  bucket,
  addressing,
}: Pick<Target, 'origin' | 'bucket' | 'addressing'>): Route {
  const [, scheme, host, port] = ORIGIN.exec(origin) ?? [];
  if (scheme === undefined || host === undefined) throw new Error('not the origin of an S3 service');
  if (!BUCKET.test(bucket)) throw new Error('not the name of a bucket');
  // A default port is not part of the Host header, which is signed as it is sent.
  const isDefault = port === undefined || port === (scheme === 'https' ? '443' : '80');
  const authority = isDefault ? host : `${host}:${port}`;
  if (addressing === 'path') return { origin, host: authority, path: `/${bucket}` };
  if (isIP(host.replace(/^\[|\]$/g, '')) !== 0)
    throw new Error('a bucket cannot be named in a host that is an address');
  return {
    origin: `${scheme}://${bucket}.${host}${port === undefined ? '' : `:${port}`}`,
    host: `${bucket}.${authority}`,
    path: '',
  };
}
