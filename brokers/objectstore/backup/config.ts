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
    .describe('Whether a restore makes the bucket where it is not there yet.'),
  S3_ADDRESSING: broker.shape.S3_ADDRESSING,
  S3_ACCESS_KEY_FILE: path('/etc/space/s3/access-key').describe(
    'Access key of the Space-managed credential.',
  ),
  S3_SECRET_KEY_FILE: path('/etc/space/s3/secret-key').describe(
    'Secret key of the Space-managed credential.',
  ),
  S3_CA_FILE: broker.shape.S3_CA_FILE.describe(
    'PEM of the authority of an S3 server that has no certificate of a public one.',
  ),
  S3_LONG_SECONDS: broker.shape.S3_LONG_SECONDS,
  BACKUP_S3_ENDPOINT: z
    .url({ protocol: /^https?$/ })
    .refine((text) => /^https?:\/\/[^/?#@]+\/?$/.test(text), 'only scheme, host and port')
    .describe('S3 server that the backup is kept on: scheme, host and port, and nothing else.'),
  BACKUP_S3_REGION: z
    .string()
    .regex(/^[a-z0-9]+(?:-[a-z0-9]+)*$/)
    .default('us-east-1')
    .describe('Region that requests to that server are signed for.'),
  BACKUP_S3_BUCKET: z
    .string()
    .regex(/^[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$/)
    .describe("The backup's bucket, which its owner makes; it is another than the Space's."),
  BACKUP_S3_PREFIX: z
    .string()
    .regex(/^[A-Za-z0-9][A-Za-z0-9_-]*(?:\/[A-Za-z0-9][A-Za-z0-9_-]*)*$/)
    .max(200)
    .describe(
      'What the keys of this backup begin with, one for each Space; all is kept under PREFIX/bucket/.',
    ),
  BACKUP_S3_ADDRESSING: z
    .enum(['path', 'virtual-host'])
    .default('path')
    .describe("Whether the backup's bucket is named in the path or in the host name."),
  BACKUP_S3_ACCESS_KEY_FILE: path('/etc/space/backup-s3/access-key').describe(
    'Access key that lists, reads, writes and deletes under that prefix.',
  ),
  BACKUP_S3_SECRET_KEY_FILE: path('/etc/space/backup-s3/secret-key').describe(
    'Secret key that belongs to it.',
  ),
  BACKUP_S3_CA_FILE: z
    .string()
    .min(1)
    .optional()
    .describe("PEM of the authority of a backup's server that has no certificate of a public one."),
  BACKUP_IDENTITY_FILE: path('/etc/space/backup/identity').describe(
    'The age identity (AGE-SECRET-KEY-1…) that the backup is encrypted to; without it there is no restore.',
  ),
  BACKUP_STATE_FILE: z
    .string()
    .min(1)
    .optional()
    .describe("The Space's state, as the operator's backup.mjs has sealed it: a copy carries it along."),
  BACKUP_KEEP_DAYS: z.coerce
    .number()
    .int()
    .min(1)
    .max(3_650)
    .default(14)
    .describe('Days that points in time are kept for; the newest two are kept in any case.'),
});

export type Config = z.infer<typeof schema>;

/** Reads the configuration from the environment. */
export function readConfig(environment: Environment): Config {
  return readEnvironment(schema, environment);
}
