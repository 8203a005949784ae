import {
  type Environment,
  isConnectionsShare,
  isTlsPair,
  NO_CONNECTIONS_SHARE,
  NO_TLS_PAIR,
  parseFixed,
  readEnvironment,
  settings,
} from '@space/broker-kit';
import { z } from 'zod';

const { port, count, path } = settings;

const words = (text: string) =>
  text
    .split(',')
    .map((word) => word.trim())
    .filter((word) => word !== '');

const schema = z
  .object({
    SPACE_NAME: settings.space,
    LISTEN_HOST: z.string().min(1).default('0.0.0.0'),
    /** Control: principals and credentials, for operator and console. */
    LISTEN_PORT: port(8080),
    /** Data: objects, for Assistants. */
    DATA_PORT: port(8081),
    METRICS_PORT: port(9090),
    /** Both or neither: both listeners then speak TLS only. */
    TLS_CERT_FILE: z.string().min(1).optional(),
    TLS_KEY_FILE: z.string().min(1).optional(),
    REGISTRY_DATABASE_URL_FILE: path('/etc/space/registry/url'),
    PROVISIONER_TOKEN_FILE: path('/etc/space/provisioner/token'),
    NAME_KEY_FILE: path('/etc/space/keys/names'),
    /** The keys that Capsules' own credentials are sealed with. */
    CUSTODY_KEYRING_FILE: path('/etc/space/custody/keyring'),
    /** The Space-managed credential and where it is good. */
    S3_ENDPOINT: z
      .url({ protocol: /^https?$/ })
      .refine((text) => /^https?:\/\/[^/?#@]+\/?$/.test(text), 'only scheme, host and port'),
    S3_REGION: z
      .string()
      .regex(/^[a-z0-9]+(?:-[a-z0-9]+)*$/)
      .default('us-east-1'),
    S3_BUCKET: z
      .string()
      .regex(/^[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$/)
      .default('space'),
    /** Makes the bucket at start, for a server that is the Space's own; elsewhere its owner makes it. */
    S3_CREATE_BUCKET: z.stringbool().default(false),
    S3_ADDRESSING: z.enum(['path', 'virtual-host']).default('path'),
    S3_ACCESS_KEY_FILE: path('/etc/space/s3/access-key'),
    S3_SECRET_KEY_FILE: path('/etc/space/s3/secret-key'),
    /** The certificate authority of an S3 server that has none of the public ones. */
    S3_CA_FILE: z.string().min(1).optional(),
    /** Bytes that a Capsule may hold whose spec names no quota. */
    DEFAULT_QUOTA_BYTES: z.coerce.number().int().min(1).max(Number.MAX_SAFE_INTEGER).default(1_073_741_824),
    /** What an object, and each folder of its key, costs of a quota beside its bytes. */
    QUOTA_ENTRY_BYTES: count(16_384),
    /** Uploads in parts that a Capsule may have open. */
    OPEN_UPLOADS: count(1_000),
    /** Authorities beside the system's, for endpoints of Capsules' own credentials. */
    BYOK_CA_FILE: z.string().min(1).optional(),
    /** `HOST=ADDRESS[:PORT]`, separated by commas: private endpoints that Capsules may name all the same. */
    BYOK_FIXED_HOSTS: z
      .string()
      .default('')
      .transform(words)
      .refine((texts) => texts.every((text) => parseFixed(text) !== undefined), 'not HOST=ADDRESS[:PORT]'),
    /** Address blocks, separated by commas: the cluster's own, and exceptions to what is not public. */
    BYOK_DENIED_BLOCKS: z.string().default('').transform(words),
    BYOK_ALLOWED_BLOCKS: z.string().default('').transform(words),
    /** Candidates of one Capsule that one replica tries out. */
    BYOK_VERIFICATIONS_PER_MINUTE: count(6),
    /** How long all that is tried with one of them may take. */
    BYOK_VERIFICATION_SECONDS: count(5),
    /** Objects of a Capsule that selected a credential of its own go there, by grants; else to the Space's bucket. */
    DATA_PLANE_BYOK: z.stringbool().default(false),
    /** The operator's public keys, a JWKS; read only where the data plane needs them. */
    GRANT_KEYS_FILE: path('/etc/space/grants/keys'),
    /** Of each listener. */
    ...settings.connections,
    CAPSULE_REQUESTS_PER_SECOND: count(100),
    CAPSULE_REQUESTS_BURST: count(1_000),
    /** Requests for objects, of all Assistants of one Capsule together. */
    OBJECT_REQUESTS_PER_SECOND: count(2_000),
    OBJECT_REQUESTS_BURST: count(10_000),
    /** The same, at one time: every body in progress is one. */
    OBJECT_STREAMS: count(64),
    /** The longest that a presigned URL may be good for; 0 refuses them all. S3 itself allows a week. */
    PRESIGNED_URL_SECONDS: z.coerce.number().int().min(0).max(604_800).default(3_600),
    /** The same of all Capsules, and connections to the S3 server: a Capsule gets a fifth of what is free at most. */
    OBJECT_CONNECTIONS: count(320),
    /** How long an S3 server may be at a copy or at the completion of an upload. */
    S3_LONG_SECONDS: count(600),
    /** How long a request waits for its place among them. */
    OBJECT_QUEUE_SECONDS: count(10),
    /** A caller who moves less ends while others wait for the place. */
    OBJECT_CONTENDED_BYTES_PER_SECOND: count(65_536),
    /** Milliseconds of processor in a second for the documents of one Capsule. */
    DOCUMENT_MS_PER_SECOND: count(250),
    REFUSALS_PER_SECOND: count(200),
    REFUSALS_BURST: count(5_000),
    LOG_LEVEL: settings.logLevel,
  })
  .refine(isTlsPair, NO_TLS_PAIR)
  .refine(isConnectionsShare, NO_CONNECTIONS_SHARE);

export type Config = z.infer<typeof schema>;

/** Reads the configuration from the environment. */
export function readConfig(environment: Environment): Config {
  return readEnvironment(schema, environment);
}
