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
        'Address that all listeners are bound to; every address, IPv6 and IPv4, where it is not set.',
      ),
    LISTEN_PORT: port(8080).describe('Port of the control listener; 0 takes a free one.'),
    METRICS_PORT: port(9090).describe('Port of the Prometheus metrics; 0 takes a free one.'),
    TLS_CERT_FILE: z
      .string()
      .min(1)
      .optional()
      .describe(
        "PEM of the listener's certificate, taken anew when it changes; it is set together with TLS_KEY_FILE, and the listener then speaks TLS 1.3 only.",
      ),
    TLS_KEY_FILE: z.string().min(1).optional().describe('PEM of the key of that certificate.'),
    ADMIN_DATABASE_URL_FILE: path('/etc/space/admin/url').describe(
      "The administrator's URL of the registry database, read again when its password changes.",
    ),
    ADMIN_DATABASE_URL: z
      .string()
      .min(1)
      .optional()
      .describe(
        'The same URL without its password, for a server of your own; ADMIN_DATABASE_URL_FILE is then not read.',
      ),
    ADMIN_DATABASE_PASSWORD_FILE: path('/etc/space/admin/password').describe(
      'The password for ADMIN_DATABASE_URL, read again when it changes.',
    ),
    PROVISIONER_TOKEN_FILE: path('/etc/space/provisioner/token').describe(
      "The provisioner's tokens, one or two lines, read again when the file changes.",
    ),
    DERIVATION_KEY_FILE: path('/etc/space/keys/derivation').describe(
      'Ring of keys that passwords are derived from, one a line, the first for what is new; 43 base64url characters each.',
    ),
    NAME_KEY_FILE: path('/etc/space/keys/names').describe(
      'Key that names of databases and roles are derived from, 43 base64url characters.',
    ),
    ISSUED_HOST: issuedRules.host.default('postgres').describe('Host in the URLs that workloads get.'),
    ISSUED_PORT: issuedRules.port.describe('Port in the URLs that workloads get.'),
    ISSUED_SSLMODE: issuedRules.sslmode
      .optional()
      .describe('sslmode in the URLs that workloads get; none where it is not set.'),
    ISSUED_SSLROOTCERT: issuedRules.sslrootcert
      .optional()
      .describe(
        'Path, as the workload sees it, of the authority that it verifies the server with; it needs ISSUED_SSLMODE verify-ca or verify-full.',
      ),
    SERVERS_FILE: z
      .string()
      .min(1)
      .optional()
      .describe(
        'Further PostgreSQL servers, as JSON, read at the start alone; without it the server of these variables, `main`, is the only one.',
      ),
    ROLE_CONNECTION_LIMIT: count(5).describe(
      'Connections that one workload may hold where its Capsule names no number.',
    ),
    STALLED_CLIENT_SECONDS: count(3).describe(
      "How long a tenant's client may stand still in the middle of a command while a drop waits for all sessions.",
    ),
    RETENTION_DAYS: count(400, 30).describe(
      'How long audit entries, tombstones and retired digests are kept.',
    ),
    DEFAULT_QUOTA_BYTES: z.coerce
      .number()
      .int()
      .min(1)
      .max(Number.MAX_SAFE_INTEGER)
      .default(1_073_741_824)
      .describe('Bytes that the databases of a Capsule may hold together where its spec names no quota.'),
    SIZE_INTERVAL_MS: count(2_000).describe(
      'How often databases that may have grown are measured, in milliseconds.',
    ),
    SPARE_DATABASES: count(8, 0).describe('Sealed databases that are kept ready.'),
    ACCEPT_OPEN_DATABASES: z
      .string()
      .default('')
      .describe('Names of databases, separated by commas, that may stay open to every role of the server.'),
    ROLE_LOCKS: count(10_000).describe(
      "What one workload's sessions may hold together of the server's table of locks.",
    ),
    TRANSACTION_SECONDS: count(3_600).describe('The longest transaction of a workload.'),
    IDLE_TRANSACTION_SECONDS: count(300).describe(
      'The longest that a transaction of a workload may wait for its client.',
    ),
    WATCH_INTERVAL_MS: count(500).describe("How often tenants' sessions are looked at, in milliseconds."),
    ...settings.connections,
    ...settings.leave,
    CAPSULE_REQUESTS_PER_SECOND: count(100).describe(
      'Requests of one Capsule to the control listener in a second; beyond them it is answered 429.',
    ),
    CAPSULE_REQUESTS_BURST: count(1_000).describe('The same at once, after a pause.'),
    REFUSALS_PER_SECOND: count(200).describe(
      'Requests without a right credential that one address may make in a second; beyond them it is answered 429 before any look-up.',
    ),
    REFUSALS_BURST: count(5_000).describe('The same at once, after a pause.'),
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
