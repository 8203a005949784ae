import { readFileSync } from 'node:fs';
import { ConfigError, parseStrictJson } from '@space/broker-kit';
import { passwordParser, type ServerAddress, serverParser } from '@space/broker-kit/postgres';
import * as z from 'zod';
import { type Config, issuedRules, mayNameAuthority } from '../config.ts';
import type { IssuedAddress } from '../core/credentials.ts';

/** The name of the server that is configured in the environment. */
export const MAIN = 'main';

/** The configuration of one server. */
export interface ServerPlan {
  readonly name: string;
  /** Its share of the Capsules, relative to the weights of the others. */
  readonly weight: number;
  /** Whether it gets no new Capsules; it keeps those that it has. */
  readonly drain: boolean;
  /** The mounted file with its password. */
  readonly file: string;
  readonly parse: (text: string) => ServerAddress;
  /** The server's address in the URLs of workloads. */
  readonly issued: IssuedAddress;
}

/** All servers; `main` is first. */
export interface ServerPlans {
  readonly main: ServerPlan;
  readonly further: readonly ServerPlan[];
}

type ReadText = (path: string) => string;

const share = {
  weight: z.number().positive().max(1_000).default(1),
  drain: z.boolean().default(false),
};

const issued = z
  .strictObject({
    host: issuedRules.host,
    // Numbers are numbers in this file, unlike in the environment.
    port: z
      .number()
      .refine((value) => issuedRules.port.safeParse(value).success, 'not a port, 0 to 65535')
      .default(5432),
    sslmode: issuedRules.sslmode.optional(),
    sslrootcert: issuedRules.sslrootcert.optional(),
  })
  .refine(({ sslmode, sslrootcert }) => mayNameAuthority(sslmode, sslrootcert), {
    path: ['sslrootcert'],
    message: 'needs sslmode verify-full or verify-ca',
  });

const server = z.strictObject({
  name: z
    .string()
    .max(20)
    .regex(/^[a-z](?:[a-z0-9-]*[a-z0-9])?$/, 'not a lower-case DNS label that begins with a letter')
    .refine((name) => name !== MAIN, `"${MAIN}" is the server of the environment`),
  url: z.string().min(1),
  passwordFile: z.string().min(1),
  issued,
  ...share,
});

const file = z
  .strictObject({
    main: z.strictObject(share).default({ weight: 1, drain: false }),
    servers: z.array(server).max(32),
  })
  .superRefine(({ servers }, context) => {
    const seen = new Set<string>();
    for (const [index, { name }] of servers.entries()) {
      if (seen.has(name))
        context.addIssue({
          code: 'custom',
          path: ['servers', index, 'name'],
          message: 'another server has this name',
        });
      seen.add(name);
    }
  });

/**
 * Reads the configuration of all servers. @throws ConfigError a sentence that names field and rule, and quotes no value
 */
export function readServerPlans(config: Config, readText: ReadText = readUtf8): ServerPlans {
  const main = {
    name: MAIN,
    file:
      config.ADMIN_DATABASE_URL === undefined
        ? config.ADMIN_DATABASE_URL_FILE
        : config.ADMIN_DATABASE_PASSWORD_FILE,
    parse: serverParser({ url: config.ADMIN_DATABASE_URL, setting: 'ADMIN_DATABASE' }, readText),
    issued: {
      host: config.ISSUED_HOST,
      port: config.ISSUED_PORT,
      sslmode: config.ISSUED_SSLMODE,
      sslrootcert: config.ISSUED_SSLROOTCERT,
    },
  };
  if (config.SERVERS_FILE === undefined) return { main: { ...main, weight: 1, drain: false }, further: [] };
  const read = parseServersFile(readServersFile(config.SERVERS_FILE, readText));
  return {
    main: { ...main, ...read.main },
    further: read.servers.map(({ url, passwordFile, ...rest }, index) => {
      const field = `SERVERS_FILE: servers.${index}`;
      const names = { url: `${field}.url`, passwordFile: `${field}.passwordFile` };
      return { ...rest, file: passwordFile, parse: passwordParser(url, names, readText) };
    }),
  };
}

function readServersFile(path: string, readText: ReadText): string {
  try {
    return readText(path);
  } catch (cause) {
    throw new ConfigError('SERVERS_FILE: the file cannot be read', { cause });
  }
}

function parseServersFile(text: string): z.infer<typeof file> {
  let value: unknown;
  try {
    value = parseStrictJson(Buffer.from(text));
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : 'not JSON';
    throw new ConfigError(`SERVERS_FILE: ${why}`, { cause });
  }
  const parsed = file.safeParse(value);
  if (parsed.success) return parsed.data;
  const problems = parsed.error.issues.map(({ path, message }) => [path.join('.'), message].join(': '));
  throw new ConfigError(`SERVERS_FILE: ${problems.join('; ')}`);
}

function readUtf8(path: string): string {
  return readFileSync(path, 'utf8');
}
