import { createHmac } from 'node:crypto';
import { Secret, type TokenDigest } from '@space/broker-kit';
import { HANDLE_BYTES } from '../../principals/tenants.ts';
import type { DataKeys } from '../cursors.ts';

/**
 * The S3 keys of an Assistant, derived from its workload principal: they are valid only for this API, are retired with
 * the principal, and need no storage. They cannot be derived from the registry without a data key.
 */
interface S3Keys {
  readonly accessKeyId: string;
  readonly secretAccessKey: Secret<string>;
}

const ACCESS_KEY = /^SPCK([0-9A-F]{32})$/;

export function s3Keys(keys: DataKeys, digest: TokenDigest): S3Keys {
  const [secretAccessKey] = secretsOf(keys, digest);
  return { accessKeyId: accessKeyOf(digest), secretAccessKey };
}

/** One secret for each data key, the current one first: older ones are valid while their key is mounted. */
export function secretsOf(
  keys: DataKeys,
  digest: TokenDigest,
): readonly [Secret<string>, ...Secret<string>[]] {
  const [current, ...older] = keys;
  return [secretOf(current, digest), ...older.map((key) => secretOf(key, digest))];
}

/** The principal's handle in an access key; undefined for an access key of another form. */
export function handleOf(accessKeyId: string): Buffer | undefined {
  const hex = ACCESS_KEY.exec(accessKeyId)?.[1];
  return hex === undefined ? undefined : Buffer.from(hex, 'hex');
}

function accessKeyOf(digest: TokenDigest): string {
  return `SPCK${digest.toString('hex', 0, HANDLE_BYTES).toUpperCase()}`;
}

function secretOf(key: Secret<Buffer>, digest: TokenDigest): Secret<string> {
  const mac = createHmac('sha256', key.reveal()).update('space-s3-secret/v1\0').update(digest);
  return new Secret(mac.digest('base64url'));
}
