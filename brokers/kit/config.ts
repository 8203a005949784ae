import * as z from 'zod';

/** Something that a service needs to start is missing or wrong, such as a setting. The message quotes no value. */
export class ConfigError extends Error {
  constructor(message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'ConfigError';
  }
}

export type Environment = Readonly<Record<string, string | undefined>>;

/** Reads a configuration from the environment; empty variables count as unset. @throws ConfigError */
export function readEnvironment<Schema extends z.ZodType>(
  schema: Schema,
  environment: Environment,
): z.infer<Schema> {
  const present = Object.fromEntries(Object.entries(environment).filter(([, value]) => value !== ''));
  const parsed = schema.safeParse(present);
  if (parsed.success) return parsed.data;
  const problems = parsed.error.issues.map((issue) => `${issue.path.join('.')}: ${issue.message}`);
  throw new ConfigError(`bad configuration: ${problems.join('; ')}`);
}

/** Settings that all services of a Space share. */
export const settings = {
  port: (fallback: number) => z.coerce.number().int().min(0).max(65_535).default(fallback),
  count: (fallback: number, least = 1) => z.coerce.number().int().min(least).max(1_000_000).default(fallback),
  /** The greatest number of a listener's connections, in all and from one address. */
  connections: {
    CONNECTIONS: z.coerce
      .number()
      .int()
      .min(16)
      .max(1_000_000)
      .default(4_000)
      .describe('Most connections that each listener holds.'),
    CONNECTIONS_PER_ADDRESS: z.coerce
      .number()
      .int()
      .min(1)
      .max(1_000_000)
      .default(256)
      .describe('Most of these connections that one address may hold; at most a quarter of CONNECTIONS.'),
  },
  /** The time, in milliseconds, until callers are no longer sent to a replica that is ending. */
  leave: {
    LEAVE_SECONDS: z.coerce
      .number()
      .int()
      .min(0)
      .max(60)
      .default(0)
      .describe(
        'Seconds for which a replica that is shutting down still accepts connections, until no Service sends it any. Each answer then closes its connection.',
      ),
  },
  path: (fallback: string) => z.string().min(1).default(fallback),
  space: z
    .string()
    .regex(/^[a-z0-9](?:[-.a-z0-9]{0,51}[a-z0-9])?$/, 'not the name of a Helm release')
    .describe('Name of the Space, which is that of its Helm release.'),
  logLevel: z
    .enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'])
    .default('info')
    .describe('Least severe level that is logged.'),
} as const;

/** For a schema's refinement: one address may not have more than a quarter of all connections. */
export function isConnectionsShare(value: {
  readonly CONNECTIONS: number;
  readonly CONNECTIONS_PER_ADDRESS: number;
}): boolean {
  return value.CONNECTIONS_PER_ADDRESS * 4 <= value.CONNECTIONS;
}

/** The message about that. */
export const NO_CONNECTIONS_SHARE = {
  path: ['CONNECTIONS_PER_ADDRESS'],
  message: 'more than a quarter of CONNECTIONS',
};

/** For a schema's refinement: certificate and key must be set together. */
export function isTlsPair(value: {
  readonly TLS_CERT_FILE?: string | undefined;
  readonly TLS_KEY_FILE?: string | undefined;
}): boolean {
  return (value.TLS_CERT_FILE === undefined) === (value.TLS_KEY_FILE === undefined);
}

/** The message about that. */
export const NO_TLS_PAIR = {
  path: ['TLS_CERT_FILE'],
  message: 'TLS_CERT_FILE and TLS_KEY_FILE go together',
};
