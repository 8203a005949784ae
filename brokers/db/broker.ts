import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import {
  ConcurrencyLimit,
  createMetrics,
  type Listener,
  type Logger,
  listen,
  portOf,
  serveMetrics,
  shutDown,
  watchFile,
} from '@space/broker-kit';
import { createBrokerApp } from './app.ts';
import { createAuthorities, parseProvisionerTokens } from './authorities.ts';
import type { Config } from './config.ts';
import { loadDriverDocument } from './driver.ts';
import { parseKeyring, parseNameKey } from './keys.ts';
import type { Context } from './operations/context.ts';
import { migrate } from './registry/migrations.ts';
import { parseAdminUrl } from './server/address.ts';
import { type Connections, openConnections } from './server/connections.ts';
import { StepError } from './server/errors.ts';
import { spareNames } from './spares/names.ts';
import { ensureTemplate } from './spares/template.ts';
import { refill, startUpkeep } from './upkeep.ts';
import { closeRegistry, judge, readServerFacts, requireSafe } from './walls/preflight.ts';

/** Connections to the server: two to look principals up, the rest to work; below ten in all. */
const CONNECTIONS = { lookup: 2, work: 6 };
/** One working connection is left to the upkeep. */
const MUTATIONS = { active: CONNECTIONS.work - 1, queued: 256 };
const UPKEEP_INTERVAL_MS = 15_000;

export interface Broker {
  readonly port: number;
  readonly metricsPort: number;
  stop(): Promise<boolean>;
}

export interface BrokerOptions {
  readonly config: Config;
  readonly driverPath: string;
  readonly log: Logger;
  readonly failpoint?: (name: string) => void;
}

/** Starts a broker, fail-closed and in this order: driver document, keys, server, registry, listener. */
export async function startBroker({ config, driverPath, log, failpoint }: BrokerOptions): Promise<Broker> {
  const driver = loadDriverDocument(driverPath);
  const keyring = await watched(config.DERIVATION_KEY_FILE, parseKeyring, log);
  const nameKey = parseNameKey(await readFile(config.NAME_KEY_FILE, 'utf8'));
  const provisioners = await watched(config.PROVISIONER_TOKEN_FILE, parseProvisionerTokens, log);
  const address = await watched(
    config.ADMIN_DATABASE_URL_FILE,
    (text) => parseAdminUrl(text, (path) => readFileSync(path, 'utf8')),
    log,
  );
  const connections = openConnections(address, log, CONNECTIONS);
  try {
    await untilReachable(connections, log);
    await closeRegistry(connections);
    const accepted = config.ACCEPT_OPEN_DATABASES.split(',').map((name) => name.trim());
    const findings = judge(await readServerFacts(connections), accepted);
    for (const warning of findings.warnings) log.warn({ finding: warning }, 'preflight');
    requireSafe(findings);
    const spares = spareNames(await migrate(connections, config.SPACE_NAME));
    await ensureTemplate(connections, address, spares);

    let nudge: () => void = () => undefined;
    const context: Context = {
      connections,
      space: config.SPACE_NAME,
      spares,
      keyring: keyring.current,
      nameKey,
      issued: { host: config.ISSUED_HOST, port: config.ISSUED_PORT, sslmode: config.ISSUED_SSLMODE },
      connectionLimit: config.ROLE_CONNECTION_LIMIT,
      log,
      nudge: () => nudge(),
      failpoint: failpoint ?? (() => undefined),
    };
    const metrics = createMetrics();
    const mutations = new ConcurrencyLimit(MUTATIONS);
    const edge = createBrokerApp({
      context,
      driver,
      authorities: createAuthorities(connections, provisioners),
      limits: {
        caller: { perSecond: config.CAPSULE_REQUESTS_PER_SECOND, burst: config.CAPSULE_REQUESTS_BURST },
        refusals: { perSecond: config.REFUSALS_PER_SECOND, burst: config.REFUSALS_BURST },
      },
      mutations,
      log,
      metrics,
    });
    const metricsServer = await serveMetrics(metrics.registry, {
      host: config.LISTEN_HOST,
      port: config.METRICS_PORT,
    });
    const listener: Listener = await listen(edge, {
      host: config.LISTEN_HOST,
      port: config.LISTEN_PORT,
      log,
    });
    const upkeep = startUpkeep([refill(context, config.SPARE_DATABASES)], context, UPKEEP_INTERVAL_MS);
    nudge = upkeep.nudge;
    log.info({ port: portOf(listener.server) }, 'listening');

    return {
      port: portOf(listener.server),
      metricsPort: portOf(metricsServer),
      stop: () =>
        shutDown(
          [
            { name: 'requests', timeoutMs: 60_000, run: () => listener.close() },
            { name: 'upkeep', timeoutMs: 20_000, run: () => upkeep.stop() },
            {
              name: 'metrics',
              timeoutMs: 1_000,
              run: () =>
                new Promise((resolve) => {
                  metricsServer.close(() => resolve());
                  metricsServer.closeAllConnections();
                }),
            },
            {
              name: 'files and connections',
              timeoutMs: 5_000,
              run: async () => {
                for (const file of [keyring, provisioners, address]) file.close();
                await connections.close();
              },
            },
          ],
          log,
        ),
    };
  } catch (error) {
    for (const file of [keyring, provisioners, address]) file.close();
    await connections.close().catch(() => undefined);
    throw error;
  }
}

function watched<T>(path: string, parse: (text: string) => T, log: Logger) {
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

/** The server may come up beside the broker; a refused login or a missing database may too. */
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
