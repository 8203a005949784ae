import { z } from 'zod';

/** A setting that is missing or wrong; the message names it and never quotes its value. */
export class ConfigError extends Error {
  constructor(message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'ConfigError';
  }
}

const port = (fallback: number) => z.coerce.number().int().min(0).max(65_535).default(fallback);
const count = (fallback: number, least = 1) =>
  z.coerce.number().int().min(least).max(1_000_000).default(fallback);
const path = (fallback: string) => z.string().min(1).default(fallback);

const schema = z
  .object({
    SPACE_NAME: z.string().regex(/^[a-z0-9](?:[-.a-z0-9]{0,51}[a-z0-9])?$/, 'not the name of a Helm release'),
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
    /** Connections that one workload may hold. */
    ROLE_CONNECTION_LIMIT: count(5),
    /** Sealed databases kept ready. */
    SPARE_DATABASES: count(8, 0),
    /** Names of databases, separated by commas, that may stay open to every role of the server. */
    ACCEPT_OPEN_DATABASES: z.string().default(''),
    CAPSULE_REQUESTS_PER_SECOND: count(100),
    CAPSULE_REQUESTS_BURST: count(1_000),
    REFUSALS_PER_SECOND: count(200),
    REFUSALS_BURST: count(5_000),
    LOG_LEVEL: z.enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent']).default('info'),
  })
  .refine(
    ({ TLS_CERT_FILE, TLS_KEY_FILE }) => (TLS_CERT_FILE === undefined) === (TLS_KEY_FILE === undefined),
    {
      path: ['TLS_CERT_FILE'],
      message: 'TLS_CERT_FILE and TLS_KEY_FILE go together',
    },
  );

export type Config = z.infer<typeof schema>;

/** Reads the configuration from the environment; empty variables count as unset. */
export function readConfig(environment: Readonly<Record<string, string | undefined>>): Config {
  const present = Object.fromEntries(Object.entries(environment).filter(([, value]) => value !== ''));
  const parsed = schema.safeParse(present);
  if (parsed.success) return parsed.data;
  const problems = parsed.error.issues.map((issue) => `${issue.path.join('.')}: ${issue.message}`);
  throw new ConfigError(`bad configuration: ${problems.join('; ')}`);
}
