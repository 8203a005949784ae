import { readFile } from 'node:fs/promises';
import {
  ConcurrencyLimit,
  createMetrics,
  keepFile,
  type Logger,
  parseKey,
  type Resources,
  type Secret,
  type ServiceMetrics,
  SharedSlots,
  type Watched,
  watched,
} from '@space/broker-kit';
import {
  type Connections,
  closeRegistry,
  openConnections,
  type ServerAddress,
  untilReachable,
} from '@space/broker-kit/postgres';
import type { Config } from './config.ts';
import type { Context } from './context.ts';
import { newEpoch } from './core/names.ts';
import { type DerivationKeyFile, watchDerivationKeys } from './derivation-keys.ts';
import { judge, readServerFacts, requireSafe, type Wanted } from './isolation/preflight.ts';
import { createTellEnded } from './limits/endings.ts';
import { countRefusedKeys, createBrokerMetrics, type ServerMetrics } from './metrics.ts';
import { Blockers } from './operations/blockers.ts';
import { SHARES, shareConnections } from './operations/shares.ts';
import { migrate } from './registry/migrations.ts';
import { keyIdsInUse } from './registry/rows.ts';
import type { ServerPlan } from './servers/config.ts';
import { spareNames } from './spares/names.ts';
import { ensureTemplate } from './spares/template.ts';

/** The connections to one server: thirteen, including two that watch. */
const CONNECTIONS = {
  application: 'space-db-broker',
  lookup: 2,
  work: SHARES.work.total,
  drop: SHARES.drop.total,
};
/** Fewer than there are connections for work, so that ending access never waits for clones. */
const CLONES = { active: 3, queued: 1_000 };
/**
 * Many more than there are connections, so that requests which wait for a clone or a checkpoint do not delay others.
 */
const MUTATIONS = { total: 32, perKey: 12, ofFree: 1, queued: 256, waitMs: 60_000 };

/** What the broker has only once for all of its servers. */
export interface Common {
  readonly config: Config;
  readonly keys: DerivationKeyFile;
  readonly nameKey: Secret<Buffer>;
  readonly metrics: ServiceMetrics;
  readonly serverMetrics: ServerMetrics;
  readonly failpoint: (name: string) => void;
}

export async function openCommon(
  config: Config,
  log: Logger,
  resources: Resources,
  options: { readonly several: boolean; readonly failpoint?: ((name: string) => void) | undefined },
): Promise<Common> {
  const keys = keepFile(resources, await watchDerivationKeys(config.DERIVATION_KEY_FILE, log));
  const nameKey = parseKey(await readFile(config.NAME_KEY_FILE, 'utf8'), 'NAME_KEY_FILE');
  const metrics = createMetrics();
  countRefusedKeys(metrics.registry, keys);
  const serverMetrics = createBrokerMetrics(metrics.registry, options.several);
  const failpoint = options.failpoint ?? (() => undefined);
  return { config, keys, nameKey, metrics, serverMetrics, failpoint };
}

/** A server with an open registry, on which tenants are isolated. */
export interface OpenServer {
  readonly context: Context;
  readonly address: Watched<ServerAddress>;
  readonly acceptedOpen: readonly string[];
  /** The random id of the registry. */
  readonly installation: string;
  /** Slots of the server's Capsules, so that requests that wait for this server do not delay those of another one. */
  readonly mutations: SharedSlots;
  /** Sets what a nudge does, once the upkeep exists. */
  attach(nudge: () => void): void;
}

/** Where the opening of a server reports, and what it leaves to be closed. */
interface OpeningParts {
  readonly log: Logger;
  readonly resources: Resources;
}

/** Opens what operations on one server need, for the service and for an administrator's command. */
export async function openServer(
  common: Common,
  plan: ServerPlan,
  { log, resources }: OpeningParts,
  reach = untilReachable,
): Promise<OpenServer> {
  const { config, keys, nameKey, failpoint } = common;
  const { blockers, address, metrics, tellEnded, ...opened } = await connect(common, plan, {
    log,
    resources,
  });
  await reach(opened.connections, log);
  const shares = shareConnections(opened.connections);
  const connections = shares();
  await closeRegistry(connections);
  const acceptedOpen = config.ACCEPT_OPEN_DATABASES.split(',').map((name) => name.trim());
  await requireServer(connections, { acceptedOpen, connections: config.ROLE_CONNECTION_LIMIT }, log);
  const installation = await migrate(connections, config.SPACE_NAME);
  const spares = spareNames(installation);
  await keys.requireOf(() => connections.session(keyIdsInUse), resources);

  const mutations = new SharedSlots(MUTATIONS);
  let nudge: () => void = () => undefined;
  const context: Context = {
    connections,
    shares,
    blockers,
    space: config.SPACE_NAME,
    spares,
    derivationKeys: keys.current,
    nameKey,
    newEpoch,
    issued: plan.issued,
    connectionLimit: config.ROLE_CONNECTION_LIMIT,
    databaseBytes: config.DEFAULT_QUOTA_BYTES,
    log,
    metrics,
    tellEnded,
    ensureTemplate: () => ensureTemplate(connections, address, spares),
    cloning: new ConcurrencyLimit(CLONES),
    nudge: () => nudge(),
    quietFor: () => mutations.quietFor(),
    failpoint,
  };
  /** The upkeep starts when the broker listens; before that, a nudge does nothing. */
  const attach = (to: () => void) => {
    nudge = to;
  };
  return { context, address, acceptedOpen, installation, mutations, attach };
}

/** Creates the connections, none of which is open yet, and the watcher of whatever delays them. */
async function connect(
  { config, serverMetrics }: Pick<Common, 'config' | 'serverMetrics'>,
  { name, file, parse }: ServerPlan,
  { log, resources }: OpeningParts,
) {
  const address = keepFile(resources, await watched(file, parse, log));
  const onDropWaits = (pid: number) => {
    blockers
      .dropWaitsFor(pid)
      .catch((error: unknown) =>
        log.debug({ err: error }, 'the session that a drop waits for could not be looked up'),
      );
  };
  const unwatched = openConnections(address, log, { ...CONNECTIONS, onDropWaits });
  resources.closers.push(() => unwatched.close());
  const metrics = serverMetrics.of(name, unwatched.count);
  const tellEnded = createTellEnded(log, metrics);
  const blockers: Blockers = new Blockers(unwatched.watch, {
    stalledMs: config.STALLED_CLIENT_SECONDS * 1_000,
    log,
    tellEnded,
  });
  return { connections: blockers.guard(unwatched), blockers, address, metrics, tellEnded };
}

/** @throws unless tenants would be isolated on the server */
async function requireServer(connections: Connections, wanted: Wanted, log: Logger): Promise<void> {
  const findings = judge(await readServerFacts(connections), wanted);
  for (const warning of findings.warnings) log.warn({ finding: warning }, 'preflight');
  requireSafe(findings);
}
