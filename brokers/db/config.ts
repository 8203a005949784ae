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

const schema = z
  .object({
    SPACE_NAME: settings.space,
    LISTEN_HOST: z.string().min(1).default('0.0.0.0'),
    LISTEN_PORT: port(8080),
    METRICS_PORT: port(9090),
    /** Both or neither: the listener then speaks TLS only. */
    TLS_CERT_FILE: z.string().min(1).optional(),
    TLS_KEY_FILE: z.string().min(1).optional(),
    ADMIN_DATABASE_URL_FILE: path('/etc/space/admin/url'),
    PROVISIONER_TOKEN_FILE: path('/etc/space/provisioner/token'),
    DERIVATION_KEY_FILE: path('/etc/space/keys/derivation'),
    NAME_KEY_FILE: path('/etc/space/keys/names'),
    ISSUED_HOST: z.string().min(1).default('postgres'),
    ISSUED_PORT: port(5432),
    ISSUED_SSLMODE: z.enum(['disable', 'require', 'verify-ca', 'verify-full']).optional(),
    /** Where a workload finds the authority that it verifies the server with. */
    ISSUED_SSLROOTCERT: z
      .string()
      .regex(/^\/[A-Za-z0-9._/-]+$/, 'not an absolute path of plain characters')
      .optional(),
    /** Connections that one workload may hold. */
    ROLE_CONNECTION_LIMIT: count(5),
    /** How long a tenant's client may stand still in the middle of a command while a drop waits for all sessions. */
    STALLED_CLIENT_SECONDS: count(3),
    /** How long audit entries, tombstones and retired digests are kept. */
    RETENTION_DAYS: count(400, 30),
    /** Bytes that the databases of a Capsule may hold together which has no limit of its own. */
    DEFAULT_QUOTA_BYTES: z.coerce.number().int().min(1).max(Number.MAX_SAFE_INTEGER).default(1_073_741_824),
    /** How often databases are measured that may have grown. */
    SIZE_INTERVAL_MS: count(2_000),
    /** Sealed databases kept ready. */
    SPARE_DATABASES: count(8, 0),
    /** Names of databases, separated by commas, that may stay open to every role of the server. */
    ACCEPT_OPEN_DATABASES: z.string().default(''),
    /** What one workload's sessions may hold of the server's table of locks, together. */
    ROLE_LOCKS: count(10_000),
    /** The longest transaction of a workload, and the longest that one waits for its client. */
    TRANSACTION_SECONDS: count(3_600),
    IDLE_TRANSACTION_SECONDS: count(300),
    /** How often sessions are looked at. */
    WATCH_INTERVAL_MS: count(500),
    ...settings.connections,
    CAPSULE_REQUESTS_PER_SECOND: count(100),
    CAPSULE_REQUESTS_BURST: count(1_000),
    REFUSALS_PER_SECOND: count(200),
    REFUSALS_BURST: count(5_000),
    LOG_LEVEL: settings.logLevel,
  })
  .refine(isTlsPair, NO_TLS_PAIR)
  .refine(isConnectionsShare, NO_CONNECTIONS_SHARE)
  .refine(
    ({ ISSUED_SSLMODE: mode, ISSUED_SSLROOTCERT: root }) =>
      root === undefined || mode === 'verify-full' || mode === 'verify-ca',
    { path: ['ISSUED_SSLROOTCERT'], message: 'needs ISSUED_SSLMODE verify-full or verify-ca' },
  );

export type Config = z.infer<typeof schema>;

/** Reads the configuration from the environment. */
export function readConfig(environment: Environment): Config {
  return readEnvironment(schema, environment);
}
