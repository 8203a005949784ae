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

/** The environment; each sentence is what docs/configuration.md says of a variable. */
export const schema = z
  .object({
    SPACE_NAME: settings.space,
    LISTEN_HOST: z
      .string()
      .min(1)
      .optional()
      .describe(
        'Address that all listeners are bound to; every address, IPv6 and IPv4, where it is not set.',
      ),
    LISTEN_PORT: port(8080).describe(
      'Port of the control listener, for operator and console; 0 takes a free one.',
    ),
    DATA_PORT: port(8081).describe('Port of the data listener, for Assistants; 0 takes a free one.'),
    METRICS_PORT: port(9090).describe('Port of the Prometheus metrics; 0 takes a free one.'),
    TLS_CERT_FILE: z
      .string()
      .min(1)
      .optional()
      .describe(
        "PEM of both listeners' certificate, taken anew when it changes; it is set together with TLS_KEY_FILE, and both then speak TLS 1.3 only.",
      ),
    TLS_KEY_FILE: z.string().min(1).optional().describe('PEM of the key of that certificate.'),
    REGISTRY_DATABASE_URL_FILE: path('/etc/space/registry/url').describe(
      'URL of the registry, a database whose owner the broker is; it needs no other right.',
    ),
    REGISTRY_DATABASE_URL: z
      .string()
      .min(1)
      .optional()
      .describe(
        'The same URL without its password, for a server of your own; REGISTRY_DATABASE_URL_FILE is then not read.',
      ),
    REGISTRY_DATABASE_PASSWORD_FILE: path('/etc/space/registry/password').describe(
      'The password for REGISTRY_DATABASE_URL, read again when it changes.',
    ),
    PROVISIONER_TOKEN_FILE: path('/etc/space/provisioner/token').describe(
      "The provisioner's tokens, one or two lines, read again when the file changes.",
    ),
    NAME_KEY_FILE: path('/etc/space/keys/names').describe(
      'Key that prefixes, cursors and S3 keys are derived from, 43 base64url characters.',
    ),
    CUSTODY_KEYRING_FILE: path('/etc/space/custody/keyring').describe(
      "Ring of keys that Capsules' own credentials are sealed with, as docs/custody.md describes it.",
    ),
    S3_ENDPOINT: z
      .url({ protocol: /^https?$/ })
      .refine((text) => /^https?:\/\/[^/?#@]+\/?$/.test(text), 'only scheme, host and port')
      .describe("S3 server of the Space's bucket: scheme, host and port, and nothing else."),
    S3_REGION: z
      .string()
      .regex(/^[a-z0-9]+(?:-[a-z0-9]+)*$/)
      .default('us-east-1')
      .describe('Region that requests to that server are signed for.'),
    S3_BUCKET: z
      .string()
      .regex(/^[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$/)
      .default('space')
      .describe("The Space's bucket."),
    S3_CREATE_BUCKET: z
      .stringbool()
      .default(false)
      .describe(
        "Whether the broker makes the bucket at start, for a server that is the Space's own; elsewhere its owner makes it, and the broker tries it out and ends where it is unfit.",
      ),
    S3_ADDRESSING: z
      .enum(['path', 'virtual-host'])
      .default('path')
      .describe('Whether the bucket is named in the path or in the host name.'),
    S3_ACCESS_KEY_FILE: path('/etc/space/s3/access-key').describe(
      'Access key of the Space-managed credential, read again when it changes.',
    ),
    S3_SECRET_KEY_FILE: path('/etc/space/s3/secret-key').describe(
      'Secret key of the Space-managed credential, read again when it changes.',
    ),
    S3_CA_FILE: z
      .string()
      .min(1)
      .optional()
      .describe(
        'PEM of the authority of an S3 server that has no certificate of a public one, read again when it changes.',
      ),
    DEFAULT_QUOTA_BYTES: z.coerce
      .number()
      .int()
      .min(1)
      .max(Number.MAX_SAFE_INTEGER)
      .default(1_073_741_824)
      .describe('Bytes that a Capsule may hold where its spec names no quota.'),
    QUOTA_ENTRY_BYTES: count(16_384).describe(
      'What an object, each folder of its key and each part of an upload costs of a quota beside its bytes.',
    ),
    OPEN_UPLOADS: count(1_000).describe('Uploads in parts that a Capsule may have open.'),
    BYOK_CA_FILE: z
      .string()
      .min(1)
      .optional()
      .describe("PEM of authorities, beside the public ones, for endpoints of Capsules' own credentials."),
    BYOK_FIXED_HOSTS: z
      .string()
      .default('')
      .transform(words)
      .refine((texts) => texts.every((text) => parseFixed(text) !== undefined), 'not HOST=ADDRESS[:PORT]')
      .describe(
        'HOST=ADDRESS[:PORT], separated by commas: private endpoints that Capsules may name all the same.',
      ),
    BYOK_DENIED_BLOCKS: z
      .string()
      .default('')
      .transform(words)
      .describe(
        "Address blocks, separated by commas, that no endpoint of a Capsule may have: the cluster's own, where they are public addresses.",
      ),
    BYOK_ALLOWED_BLOCKS: z
      .string()
      .default('')
      .transform(words)
      .describe('Address blocks, separated by commas, that endpoints may have though they are not public.'),
    BYOK_NAT64_PREFIXES: z
      .string()
      .default('')
      .transform(words)
      .describe(
        "IPv6 prefixes, separated by commas, by which the network's own NAT64 reaches IPv4, beside 64:ff9b::/96; what they carry is judged.",
      ),
    BYOK_VERIFICATIONS_PER_MINUTE: count(6).describe(
      'Candidates of one Capsule that one replica tries out in a minute; beyond them it is answered 429.',
    ),
    BYOK_VERIFICATION_SECONDS: count(5).describe('How long all that is tried with one candidate may take.'),
    DATA_PLANE_BYOK: z
      .stringbool()
      .default(false)
      .describe(
        "Whether objects of a Capsule that selected a credential of its own go there, by grants, and not to the Space's bucket.",
      ),
    GRANT_KEYS_FILE: path('/etc/space/grants/keys').describe(
      "The operator's public keys, a JWKS; it is read only where DATA_PLANE_BYOK is true.",
    ),
    ...settings.connections,
    ...settings.leave,
    CAPSULE_REQUESTS_PER_SECOND: count(100).describe(
      'Requests of one Capsule to the control listener in a second; beyond them it is answered 429.',
    ),
    CAPSULE_REQUESTS_BURST: count(1_000).describe('The same at once, after a pause.'),
    OBJECT_REQUESTS_PER_SECOND: count(2_000).describe(
      'Requests for objects of all Assistants of one Capsule in a second; beyond them they are answered 429.',
    ),
    OBJECT_REQUESTS_BURST: count(10_000).describe('The same at once, after a pause.'),
    OBJECT_STREAMS: count(64).describe(
      'Requests for objects of one Capsule at one time; every body in progress is one.',
    ),
    PRESIGNED_URL_SECONDS: z.coerce
      .number()
      .int()
      .min(0)
      .max(604_800)
      .default(3_600)
      .describe('The longest that a presigned URL may be good for; 0 refuses them all.'),
    OBJECT_CONNECTIONS: count(320).describe(
      'Requests for objects of all Capsules at one time, and connections to the S3 server; a Capsule gets a fifth of what is free at most.',
    ),
    S3_LONG_SECONDS: count(600).describe(
      'How long an S3 server may be at a copy or at the completion of an upload.',
    ),
    OBJECT_QUEUE_SECONDS: count(10).describe(
      'How long a request waits for a connection to the S3 server before it is answered 503.',
    ),
    OBJECT_CONTENDED_BYTES_PER_SECOND: count(65_536).describe(
      'A caller who moves fewer bytes a second is cut while a Capsule with fewer requests waits for a connection.',
    ),
    DOCUMENT_MS_PER_SECOND: count(250).describe(
      'Milliseconds of processor in a second for the XML, JSON and lists of one Capsule.',
    ),
    REFUSALS_PER_SECOND: count(200).describe(
      'Requests without a right credential that one address may make in a second; beyond them it is answered 429 before any look-up.',
    ),
    REFUSALS_BURST: count(5_000).describe('The same at once, after a pause.'),
    LOG_LEVEL: settings.logLevel,
  })
  .refine(isTlsPair, NO_TLS_PAIR)
  .refine(isConnectionsShare, NO_CONNECTIONS_SHARE);

export type Config = z.infer<typeof schema>;

/** Reads the configuration from the environment. */
export function readConfig(environment: Environment): Config {
  return readEnvironment(schema, environment);
}
