import {
  type Environment,
  isConnectionsShare,
  isTlsPair,
  NO_CONNECTIONS_SHARE,
  NO_TLS_PAIR,
  readEnvironment,
  settings,
} from '@space/broker-kit';
import * as z from 'zod';

const { port, count, path } = settings;

/** The settings of the address in workloads' URLs, which every configured server has. */
export const issuedRules = {
  host: z.string().min(1),
  port: port(5432),
  sslmode: z.enum(['disable', 'require', 'verify-ca', 'verify-full']),
  sslrootcert: z.string().regex(/^\/[A-Za-z0-9._/-]+$/, 'not an absolute path of plain characters'),
} as const;

/** For a schema's refinement: an authority may be named only if the mode verifies the server. */
export function mayNameAuthority(mode: string | undefined, root: string | undefined): boolean {
  return root === undefined || mode === 'verify-full' || mode === 'verify-ca';
}

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
    LISTEN_PORT: port(8080).describe('Port of the control listener; 0 means any free port.'),
    METRICS_PORT: port(9090).describe('Port of the Prometheus metrics; 0 means any free port.'),
    TLS_CERT_FILE: z
      .string()
      .min(1)
      .optional()
      .describe(
        "PEM file of the listener's certificate, read again when it changes. It requires TLS_KEY_FILE; with both, the listener accepts TLS 1.3 only.",
      ),
    TLS_KEY_FILE: z.string().min(1).optional().describe('PEM file of the private key of that certificate.'),
    ADMIN_DATABASE_URL_FILE: path('/etc/space/admin/url').describe(
      "File with the administrator's URL of the registry database, read again when its password changes.",
    ),
    ADMIN_DATABASE_URL: z
      .string()
      .min(1)
      .optional()
      .describe(
        'The same URL without its password, for a server of your own. If it is set, ADMIN_DATABASE_URL_FILE is not read.',
      ),
    ADMIN_DATABASE_PASSWORD_FILE: path('/etc/space/admin/password').describe(
      'File with the password for ADMIN_DATABASE_URL, read again when it changes.',
    ),
    PROVISIONER_TOKEN_FILE: path('/etc/space/provisioner/token').describe(
      "File with the provisioner's tokens, one or two lines, read again when it changes.",
    ),
    DERIVATION_KEY_FILE: path('/etc/space/keys/derivation').describe(
      'File with the keys from which passwords are derived, one on each line, 43 base64url characters each. The first is used for new passwords.',
    ),
    NAME_KEY_FILE: path('/etc/space/keys/names').describe(
      'File with the key from which names of databases and roles are derived, 43 base64url characters.',
    ),
    ISSUED_HOST: issuedRules.host.default('postgres').describe('Host in the URLs that workloads get.'),
    ISSUED_PORT: issuedRules.port.describe('Port in the URLs that workloads get.'),
    ISSUED_SSLMODE: issuedRules.sslmode
      .optional()
      .describe('sslmode in the URLs that workloads get. If it is not set, the URLs have none.'),
    ISSUED_SSLROOTCERT: issuedRules.sslrootcert
      .optional()
      .describe(
        "Path in the workload's container of the certificate authority that verifies the server. It requires ISSUED_SSLMODE verify-ca or verify-full.",
      ),
    SERVERS_FILE: z
      .string()
      .min(1)
      .optional()
      .describe(
        'JSON file of further PostgreSQL servers, read only at the start. Without it, the server of these variables, `main`, is the only one.',
      ),
    ROLE_CONNECTION_LIMIT: count(5).describe(
      'Most connections that one workload may hold if its Capsule does not set a number.',
    ),
    STALLED_CLIENT_SECONDS: count(3).describe(
      "Seconds for which a tenant's client may stop reading or sending in the middle of a command while a drop waits for all sessions.",
    ),
    RETENTION_DAYS: count(400, 30).describe(
      'Days for which audit entries, tombstones and retired digests are kept.',
    ),
    DEFAULT_QUOTA_BYTES: z.coerce
      .number()
      .int()
      .min(1)
      .max(Number.MAX_SAFE_INTEGER)
      .default(1_073_741_824)
      .describe('Most bytes that the databases of a Capsule may hold together if its spec sets no quota.'),
    SIZE_INTERVAL_MS: count(2_000).describe(
      'Milliseconds between two measurements of the databases that may have grown.',
    ),
    SPARE_DATABASES: count(8, 0).describe('Number of sealed spare databases that are kept ready.'),
    ACCEPT_OPEN_DATABASES: z
      .string()
      .default('')
      .describe('Names of databases that may stay open to every role of the server, separated by commas.'),
    ROLE_LOCKS: count(10_000).describe(
      "Most entries of the server's lock table that the sessions of one workload may hold together.",
    ),
    TRANSACTION_SECONDS: count(3_600).describe('Longest transaction of a workload, in seconds.'),
    IDLE_TRANSACTION_SECONDS: count(300).describe(
      'Longest time that a transaction of a workload may wait for its client, in seconds.',
    ),
    WATCH_INTERVAL_MS: count(500).describe("Milliseconds between two checks of tenants' sessions."),
    ...settings.connections,
    ...settings.leave,
    CAPSULE_REQUESTS_PER_SECOND: count(100).describe(
      'Requests per second of one Capsule to the control listener; further ones are answered 429.',
    ),
    CAPSULE_REQUESTS_BURST: count(1_000).describe('Most of them at once, after a pause.'),
    REFUSALS_PER_SECOND: count(200).describe(
      'Requests per second without a valid credential from one address; further ones are answered 429 before any look-up.',
    ),
    REFUSALS_BURST: count(5_000).describe('Most of them at once, after a pause.'),
    LOG_LEVEL: settings.logLevel,
  })
  .refine(isTlsPair, NO_TLS_PAIR)
  .refine(isConnectionsShare, NO_CONNECTIONS_SHARE)
  .refine(({ ISSUED_SSLMODE: mode, ISSUED_SSLROOTCERT: root }) => mayNameAuthority(mode, root), {
    path: ['ISSUED_SSLROOTCERT'],
    message: 'needs ISSUED_SSLMODE verify-full or verify-ca',
  });

export type Config = z.infer<typeof schema>;

/** Reads the configuration from the environment. */
export function readConfig(environment: Environment): Config {
  return readEnvironment(schema, environment);
}
