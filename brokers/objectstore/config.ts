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
        'Address that all listeners bind to. If it is not set, they listen on every address, IPv6 and IPv4.',
      ),
    LISTEN_PORT: port(8080).describe(
      'Port of the control listener, for operator and console; 0 means any free port.',
    ),
    DATA_PORT: port(8081).describe('Port of the data listener, for Assistants; 0 means any free port.'),
    METRICS_PORT: port(9090).describe('Port of the Prometheus metrics; 0 means any free port.'),
    TLS_CERT_FILE: z
      .string()
      .min(1)
      .optional()
      .describe(
        "PEM file of both listeners' certificate, read again when it changes. It requires TLS_KEY_FILE; with both, the listeners accept TLS 1.3 only.",
      ),
    TLS_KEY_FILE: z.string().min(1).optional().describe('PEM file of the private key of that certificate.'),
    REGISTRY_DATABASE_URL_FILE: path('/etc/space/registry/url').describe(
      "File with the URL of the registry, a database that the broker's role owns; the role needs no other right.",
    ),
    REGISTRY_DATABASE_URL: z
      .string()
      .min(1)
      .optional()
      .describe(
        'The same URL without its password, for a server of your own. If it is set, REGISTRY_DATABASE_URL_FILE is not read.',
      ),
    REGISTRY_DATABASE_PASSWORD_FILE: path('/etc/space/registry/password').describe(
      'File with the password for REGISTRY_DATABASE_URL, read again when it changes.',
    ),
    PROVISIONER_TOKEN_FILE: path('/etc/space/provisioner/token').describe(
      "File with the provisioner's tokens, one or two lines, read again when it changes.",
    ),
    NAME_KEY_FILE: path('/etc/space/keys/names').describe(
      'File with the key from which prefixes, cursors and S3 keys are derived, 43 base64url characters.',
    ),
    CUSTODY_KEYRING_FILE: path('/etc/space/custody/keyring').describe(
      "File with the ring of keys that seal Capsules' own credentials, as docs/custody.md describes it.",
    ),
    S3_ENDPOINT: z
      .url({ protocol: /^https?$/ })
      .refine((text) => /^https?:\/\/[^/?#@]+\/?$/.test(text), 'only scheme, host and port')
      .describe("URL of the S3 server of the Space's bucket: only scheme, host and port."),
    S3_REGION: z
      .string()
      .regex(/^[a-z0-9]+(?:-[a-z0-9]+)*$/)
      .default('us-east-1')
      .describe('Region for which requests to that server are signed.'),
    S3_BUCKET: z
      .string()
      .regex(/^[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$/)
      .default('space')
      .describe("The Space's bucket."),
    S3_CREATE_BUCKET: z
      .stringbool()
      .default(false)
      .describe(
        "Whether the broker creates the bucket at its start, for an S3 server that belongs to the Space. Otherwise the bucket's owner creates it; the broker tests it and exits if it is unfit.",
      ),
    S3_ADDRESSING: z
      .enum(['path', 'virtual-host'])
      .default('path')
      .describe('Whether the name of the bucket is in the path or in the host name.'),
    S3_ACCESS_KEY_FILE: path('/etc/space/s3/access-key').describe(
      'File with the access key of the Space-managed credential, read again when it changes.',
    ),
    S3_SECRET_KEY_FILE: path('/etc/space/s3/secret-key').describe(
      'File with the secret key of the Space-managed credential, read again when it changes.',
    ),
    S3_CA_FILE: z
      .string()
      .min(1)
      .optional()
      .describe(
        "PEM file of the S3 server's certificate authority, if it is not a public one; read again when it changes.",
      ),
    DEFAULT_QUOTA_BYTES: z.coerce
      .number()
      .int()
      .min(1)
      .max(Number.MAX_SAFE_INTEGER)
      .default(1_073_741_824)
      .describe('Most bytes that a Capsule may hold if its spec sets no quota.'),
    QUOTA_ENTRY_BYTES: count(16_384).describe(
      'Bytes of the quota that each object, each folder of its key and each part of an upload takes in addition to its size.',
    ),
    OPEN_UPLOADS: count(1_000).describe('Most multipart uploads that a Capsule may have open.'),
    BYOK_CA_FILE: z
      .string()
      .min(1)
      .optional()
      .describe(
        "PEM file of certificate authorities, in addition to the public ones, for endpoints of Capsules' own credentials.",
      ),
    BYOK_FIXED_HOSTS: z
      .string()
      .default('')
      .transform(words)
      .refine((texts) => texts.every((text) => parseFixed(text) !== undefined), 'not HOST=ADDRESS[:PORT]')
      .describe(
        'Private endpoints that Capsules may nevertheless use: HOST=ADDRESS[:PORT], separated by commas.',
      ),
    BYOK_DENIED_BLOCKS: z
      .string()
      .default('')
      .transform(words)
      .describe(
        'Address blocks that no endpoint of a Capsule may have, separated by commas: those of the cluster, if they are public addresses.',
      ),
    BYOK_ALLOWED_BLOCKS: z
      .string()
      .default('')
      .transform(words)
      .describe('Address blocks that endpoints may have although they are not public, separated by commas.'),
    BYOK_NAT64_PREFIXES: z
      .string()
      .default('')
      .transform(words)
      .describe(
        "IPv6 prefixes of the network's own NAT64 in addition to 64:ff9b::/96, separated by commas. The IPv4 address inside is checked.",
      ),
    BYOK_VERIFICATIONS_PER_MINUTE: count(6).describe(
      'Candidate credentials of one Capsule that one replica verifies per minute; further ones are answered 429.',
    ),
    BYOK_VERIFICATION_SECONDS: count(5).describe('Seconds that the verification of one candidate may take.'),
    DATA_PLANE_BYOK: z
      .stringbool()
      .default(false)
      .describe(
        "Whether objects of a Capsule that selected a credential of its own are stored with that credential, through grants, and not in the Space's bucket.",
      ),
    GRANT_KEYS_FILE: path('/etc/space/grants/keys').describe(
      "JWKS file of the operator's public keys; it is read only if DATA_PLANE_BYOK is true.",
    ),
    ...settings.connections,
    ...settings.leave,
    CAPSULE_REQUESTS_PER_SECOND: count(100).describe(
      'Requests per second of one Capsule to the control listener; further ones are answered 429.',
    ),
    CAPSULE_REQUESTS_BURST: count(1_000).describe('Most of them at once, after a pause.'),
    OBJECT_REQUESTS_PER_SECOND: count(2_000).describe(
      'Requests for objects per second of all Assistants of one Capsule; further ones are answered 429.',
    ),
    OBJECT_REQUESTS_BURST: count(10_000).describe('Most of them at once, after a pause.'),
    OBJECT_STREAMS: count(64).describe(
      'Most requests for objects of one Capsule at the same time, until their bodies are complete.',
    ),
    PRESIGNED_URL_SECONDS: z.coerce
      .number()
      .int()
      .min(0)
      .max(604_800)
      .default(3_600)
      .describe('Longest lifetime of a presigned URL, in seconds; with 0, all are refused.'),
    OBJECT_CONNECTIONS: count(320).describe(
      'Most requests for objects of all Capsules at the same time, and most connections to the S3 server. A Capsule gets at most a fifth of those that are free.',
    ),
    S3_LONG_SECONDS: count(600).describe(
      'Seconds that the S3 server may take for a copy or for the completion of an upload.',
    ),
    OBJECT_QUEUE_SECONDS: count(10).describe(
      'Seconds for which a request waits for a connection to the S3 server before it is answered 503.',
    ),
    OBJECT_CONTENDED_BYTES_PER_SECOND: count(65_536).describe(
      'Bytes per second. A slower caller is disconnected while a Capsule with fewer requests waits for a connection.',
    ),
    DOCUMENT_MS_PER_SECOND: count(250).describe(
      'Milliseconds of processor time per second for the XML, JSON and lists of one Capsule.',
    ),
    REFUSALS_PER_SECOND: count(200).describe(
      'Requests per second without a valid credential from one address; further ones are answered 429 before any look-up.',
    ),
    REFUSALS_BURST: count(5_000).describe('Most of them at once, after a pause.'),
    LOG_LEVEL: settings.logLevel,
  })
  .refine(isTlsPair, NO_TLS_PAIR)
  .refine(isConnectionsShare, NO_CONNECTIONS_SHARE);

export type Config = z.infer<typeof schema>;

/** Reads the configuration from the environment. */
export function readConfig(environment: Environment): Config {
  return readEnvironment(schema, environment);
}
