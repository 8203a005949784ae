import { type Environment, readEnvironment, settings } from '@space/broker-kit';
import { z } from 'zod';
import { schema as broker } from '../config.ts';

const { path } = settings;

/** The environment of `backup.mjs`: the Space's bucket as the broker uses it, and the bucket that it is copied into. */
export const schema = z.object({
  SPACE_NAME: broker.shape.SPACE_NAME,
  S3_ENDPOINT: broker.shape.S3_ENDPOINT,
  S3_REGION: broker.shape.S3_REGION,
  S3_BUCKET: broker.shape.S3_BUCKET,
  S3_CREATE_BUCKET: z
    .stringbool()
    .default(false)
    .describe('Whether a restore creates the bucket if it does not exist.'),
  S3_ADDRESSING: broker.shape.S3_ADDRESSING,
  S3_ACCESS_KEY_FILE: path('/etc/space/s3/access-key').describe(
    'File with the access key of the Space-managed credential.',
  ),
  S3_SECRET_KEY_FILE: path('/etc/space/s3/secret-key').describe(
    'File with the secret key of the Space-managed credential.',
  ),
  S3_CA_FILE: broker.shape.S3_CA_FILE.describe(
    "PEM file of the S3 server's certificate authority, if it is not a public one.",
  ),
  S3_LONG_SECONDS: broker.shape.S3_LONG_SECONDS,
  BACKUP_S3_ENDPOINT: z
    .url({ protocol: /^https?$/ })
    .refine((text) => /^https?:\/\/[^/?#@]+\/?$/.test(text), 'only scheme, host and port')
    .describe('URL of the S3 server that keeps the backup: only scheme, host and port.'),
  BACKUP_S3_REGION: z
    .string()
    .regex(/^[a-z0-9]+(?:-[a-z0-9]+)*$/)
    .default('us-east-1')
    .describe('Region for which requests to that server are signed.'),
  BACKUP_S3_BUCKET: z
    .string()
    .regex(/^[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$/)
    .describe("Bucket of the backup, which its owner creates; it must not be the Space's."),
  BACKUP_S3_PREFIX: z
    .string()
    .regex(/^[A-Za-z0-9][A-Za-z0-9_-]*(?:\/[A-Za-z0-9][A-Za-z0-9_-]*)*$/)
    .max(200)
    .describe(
      'Prefix of all keys of this backup, a different one for each Space. Objects are kept under PREFIX/bucket/.',
    ),
  BACKUP_S3_ADDRESSING: z
    .enum(['path', 'virtual-host'])
    .default('path')
    .describe("Whether the name of the backup's bucket is in the path or in the host name."),
  BACKUP_S3_ACCESS_KEY_FILE: path('/etc/space/backup-s3/access-key').describe(
    'File with an access key that may list, read, write and delete under that prefix.',
  ),
  BACKUP_S3_SECRET_KEY_FILE: path('/etc/space/backup-s3/secret-key').describe('File with its secret key.'),
  BACKUP_S3_CA_FILE: z
    .string()
    .min(1)
    .optional()
    .describe("PEM file of that S3 server's certificate authority, if it is not a public one."),
  BACKUP_IDENTITY_FILE: path('/etc/space/backup/identity').describe(
    'File with the age identity (AGE-SECRET-KEY-1…) that decrypts the backup. Without it, nothing can be restored.',
  ),
  BACKUP_STATE_FILE: z
    .string()
    .min(1)
    .optional()
    .describe(
      "File with the Space's sealed state, which the operator's backup.mjs writes; it is copied to the backup, too.",
    ),
  BACKUP_ACCEPT_LOSS: z
    .string()
    .regex(/^\d{8}T\d{9}Z$/)
    .optional()
    .describe(
      "Name of the newest point, for one copy that is to go on although the Space's bucket has lost what that point has: after an intended reset.",
    ),
  BACKUP_KEEP_DAYS: z.coerce
    .number()
    .int()
    .min(1)
    .max(3_650)
    .default(14)
    .describe(
      'Days of which every moment can be restored. Older points are removed, except the last before these days and the newest two.',
    ),
});

export type Config = z.infer<typeof schema>;

/** Reads the configuration from the environment. */
export function readConfig(environment: Environment): Config {
  return readEnvironment(schema, environment);
}
