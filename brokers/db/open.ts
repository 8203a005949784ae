import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import {
  ConcurrencyLimit,
  ConfigError,
  createMetrics,
  keepFile,
  type Logger,
  parseKey,
  type Resources,
  watched,
} from '@space/broker-kit';
import {
  type Connections,
  closeRegistry,
  openConnections,
  serverParser,
  untilReachable,
} from '@space/broker-kit/postgres';
import type { Config } from './config.ts';
import type { Context } from './context.ts';
import { newEpoch } from './core/names.ts';
import { type DerivationKeys, parseDerivationKeys } from './derivation-keys.ts';
import { judge, readServerFacts, requireSafe, type Wanted } from './isolation/preflight.ts';
import { createBrokerMetrics } from './metrics.ts';
import { Blockers } from './operations/blockers.ts';
import { SHARES, shareConnections } from './operations/shares.ts';
import { migrate } from './registry/migrations.ts';
import { keyIdsInUse } from './registry/rows.ts';
import { spareNames } from './spares/names.ts';
import { ensureTemplate } from './spares/template.ts';

/** Connections to the server: twelve, with the two that watch. */
const CONNECTIONS = {
  application: 'space-db-broker',
  lookup: 2,
  work: SHARES.work.total,
  drop: SHARES.drop.total,
};
/** Fewer than there are connections for work, so that a cut never waits behind clones. */
const CLONES = { active: 3, queued: 1_000 };

/** Opens what operations need, for the service and for an administrator's command. */
export async function openContext(
  config: Config,
  log: Logger,
  resources: Resources,
  failpoint?: (name: string) => void,
) {
  const keys = keepFile(resources, await watched(config.DERIVATION_KEY_FILE, parseDerivationKeys, log));
  const nameKey = parseKey(await readFile(config.NAME_KEY_FILE, 'utf8'), 'NAME_KEY_FILE');
  const opened = await openServer(config, log, resources);
  const { blockers, address, registry, metrics } = opened;
  const shares = shareConnections(opened.connections);
  const connections = shares();
  await closeRegistry(connections);
  const acceptedOpen = config.ACCEPT_OPEN_DATABASES.split(',').map((name) => name.trim());
  await requireServer(connections, { acceptedOpen, connections: config.ROLE_CONNECTION_LIMIT }, log);
  const spares = spareNames(await migrate(connections, config.SPACE_NAME));
  await requireKeys(connections, keys.current());

  let attached: Pick<Context, 'nudge' | 'quietFor'> = { nudge: () => undefined, quietFor: () => 0 };
  const context: Context = {
    connections,
    shares,
    blockers,
    space: config.SPACE_NAME,
    spares,
    derivationKeys: keys.current,
    nameKey,
    newEpoch,
    issued: {
      host: config.ISSUED_HOST,
      port: config.ISSUED_PORT,
      sslmode: config.ISSUED_SSLMODE,
      sslrootcert: config.ISSUED_SSLROOTCERT,
    },
    connectionLimit: config.ROLE_CONNECTION_LIMIT,
    databaseBytes: config.DEFAULT_QUOTA_BYTES,
    log,
    metrics,
    ensureTemplate: () => ensureTemplate(connections, address, spares),
    cloning: new ConcurrencyLimit(CLONES),
    nudge: () => attached.nudge(),
    quietFor: () => attached.quietFor(),
    failpoint: failpoint ?? (() => undefined),
  };
  /** Adds what exists only once the broker listens. */
  const attach = (parts: typeof attached) => {
    attached = parts;
  };
  return { context, address, acceptedOpen, registry, attach };
}

/** Returns once the server answers: its connections, and who watches what keeps them waiting. */
async function openServer(config: Config, log: Logger, resources: Resources) {
  const readCa = (path: string) => readFileSync(path, 'utf8');
  const url = config.ADMIN_DATABASE_URL;
  const parse = serverParser({ url, setting: 'ADMIN_DATABASE' }, readCa);
  const file = url === undefined ? config.ADMIN_DATABASE_URL_FILE : config.ADMIN_DATABASE_PASSWORD_FILE;
  const address = keepFile(resources, await watched(file, parse, log));
  const registry = createMetrics();
  const unwatched = openConnections(address, log, CONNECTIONS, (pid) => {
    blockers
      .dropWaitsFor(pid)
      .catch((error: unknown) => log.debug({ err: error }, 'whom a drop waits for is not told'));
  });
  const metrics = createBrokerMetrics(registry.registry, unwatched.count);
  const blockers: Blockers = new Blockers(unwatched.watch, {
    stalledMs: config.STALLED_CLIENT_SECONDS * 1_000,
    log,
    onEnded: (reason) => metrics.sessionsEnded.labels(reason).inc(),
  });
  const connections = blockers.guard(unwatched);
  resources.closers.push(() => connections.close());
  await untilReachable(connections, log);
  return { connections, blockers, address, registry, metrics };
}

/** Fails closed on a server on which tenants would not be safe. */
async function requireServer(connections: Connections, wanted: Wanted, log: Logger): Promise<void> {
  const findings = judge(await readServerFacts(connections), wanted);
  for (const warning of findings.warnings) log.warn({ finding: warning }, 'preflight');
  requireSafe(findings);
}

/** Fails closed: without its key, an existing database's URL could never be issued again. */
async function requireKeys(connections: Connections, keys: DerivationKeys): Promise<void> {
  const ids = await connections.session(keyIdsInUse);
  const missing = ids.filter((id) => keys.byId(id) === undefined);
  if (missing.length > 0) {
    throw new ConfigError(
      `DERIVATION_KEY_FILE: keys that databases depend on are missing: ${missing.join(', ')}`,
    );
  }
}
