import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createMetrics, type Logger, watchFile } from '@space/broker-kit';
import { type Config, ConfigError } from './config.ts';
import { type Keyring, parseKeyring, parseNameKey } from './keys.ts';
import { createBrokerMetrics } from './metrics.ts';
import type { Context } from './operations/context.ts';
import { migrate } from './registry/migrations.ts';
import { keyIdsInUse } from './registry/rows.ts';
import { parseAdminUrl } from './server/address.ts';
import { type Connections, openConnections } from './server/connections.ts';
import { StepError } from './server/errors.ts';
import { spareNames } from './spares/names.ts';
import { closeRegistry, judge, readServerFacts, requireSafe } from './walls/preflight.ts';

/** Connections to the server, nine in all. */
const CONNECTIONS = { lookup: 2, work: 4, drop: 3 };

/** What a process holds until its end, which is closed in reverse, and the mounted files among it. */
export interface Held {
  readonly closers: (() => unknown)[];
  readonly files: { refresh(): Promise<void> }[];
}

export function hold<File extends { refresh(): Promise<void>; close(): void }>(held: Held, file: File): File {
  held.closers.push(() => file.close());
  held.files.push(file);
  return file;
}

/** What operations need, whether a request or an administrator's command asks for them. */
export async function openContext(
  config: Config,
  log: Logger,
  held: Held,
  failpoint?: (name: string) => void,
) {
  const keyring = hold(held, await watched(config.DERIVATION_KEY_FILE, parseKeyring, log));
  const nameKey = parseNameKey(await readFile(config.NAME_KEY_FILE, 'utf8'));
  const parse = (text: string) => parseAdminUrl(text, (path) => readFileSync(path, 'utf8'));
  const address = hold(held, await watched(config.ADMIN_DATABASE_URL_FILE, parse, log));
  const connections = openConnections(address, log, CONNECTIONS);
  held.closers.push(() => connections.close());
  await untilReachable(connections, log);
  await closeRegistry(connections);
  const acceptedOpen = config.ACCEPT_OPEN_DATABASES.split(',').map((name) => name.trim());
  const findings = judge(await readServerFacts(connections), acceptedOpen);
  for (const warning of findings.warnings) log.warn({ finding: warning }, 'preflight');
  requireSafe(findings);
  const spares = spareNames(await migrate(connections, config.SPACE_NAME));
  await requireKeys(connections, keyring.current());

  let attached: Pick<Context, 'nudge' | 'quietFor'> = { nudge: () => undefined, quietFor: () => 0 };
  const registry = createMetrics();
  const context: Context = {
    connections,
    space: config.SPACE_NAME,
    spares,
    keyring: keyring.current,
    nameKey,
    issued: { host: config.ISSUED_HOST, port: config.ISSUED_PORT, sslmode: config.ISSUED_SSLMODE },
    connectionLimit: config.ROLE_CONNECTION_LIMIT,
    log,
    metrics: createBrokerMetrics(registry.registry, connections.count),
    nudge: () => attached.nudge(),
    quietFor: () => attached.quietFor(),
    failpoint: failpoint ?? (() => undefined),
  };
  /** For what exists only once the broker listens. */
  const attach = (parts: typeof attached) => {
    attached = parts;
  };
  return { context, address, acceptedOpen, registry, attach };
}

/** Fail closed: without its key, an existing database's URL could never be issued again. */
async function requireKeys(connections: Connections, keyring: Keyring): Promise<void> {
  const ids = await connections.session(keyIdsInUse);
  const missing = ids.filter((id) => keyring.byId(id) === undefined);
  if (missing.length > 0) {
    throw new ConfigError(
      `DERIVATION_KEY_FILE: keys that databases depend on are missing: ${missing.join(', ')}`,
    );
  }
}

/** A mounted file that is taken anew when it changes, and said so. */
export function watched<T>(path: string, parse: (text: string) => T, log: Logger) {
  return watchFile(path, {
    parse,
    onChange: (outcome) => {
      if (outcome.ok) log.info({ file: path }, 'file changed and taken');
      else
        log.error(
          { file: path, err: outcome.error },
          'file changed and refused; the last good content stays',
        );
    },
  });
}

/** The server may come up beside the broker, and its bootstrap may end after it. */
async function untilReachable(connections: Connections, log: Logger): Promise<void> {
  const deadline = Date.now() + 120_000;
  for (;;) {
    try {
      await connections.session((session) => session.run('reach server', 'SELECT 1'));
      return;
    } catch (error) {
      if (!(error instanceof StepError) || Date.now() > deadline) throw error;
      log.warn({ err: error }, 'waiting for the database server');
      await new Promise((resolve) => setTimeout(resolve, 500));
    }
  }
}

/** What fails to close must not keep the rest open. */
export async function closeAll({ closers }: Held): Promise<void> {
  for (const close of closers.toReversed()) {
    try {
      await close();
    } catch {
      // The process is ending, and the connection or file with it.
    }
  }
}
