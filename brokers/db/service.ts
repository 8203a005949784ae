import {
  keepFile,
  type Logger,
  parseProvisionerTokens,
  type Resources,
  type Round,
  watched,
} from '@space/broker-kit';
import { startShell } from '@space/broker-kit/service';
import { createControl } from './app.ts';
import type { Config } from './config.ts';
import type { Context } from './context.ts';
import { loadDriverDocument } from './driver.ts';
import type { Common, OpenServer } from './open.ts';
import { runFurther, upkeepOf, watchSessions } from './running.ts';
import { openFleet } from './servers/fleet.ts';
import type { Servers } from './servers/router.ts';

const REQUESTS_END_MS = 60_000;
const FURTHER_SERVERS_END_MS = 20_000;

export interface Service {
  readonly port: number;
  readonly metricsPort: number;
  /** The rounds of the upkeep, which tests run directly. */
  readonly rounds: readonly Round[];
  /** The context of the first server. */
  readonly context: Context;
  readonly servers: Servers;
  /** Reads the mounted files now. */
  refreshFiles(): Promise<void>;
  /** The number of running mutations. */
  inFlight(): number;
  stop(): Promise<boolean>;
}

export interface ServiceOptions {
  readonly config: Config;
  readonly driverPath: string;
  readonly log: Logger;
  readonly failpoint?: (name: string) => void;
}

/**
 * Starts the broker in this order: driver document, keys, servers, registries, listener. @throws if any of these is not
 * safe
 */
export async function startService(options: ServiceOptions): Promise<Service> {
  const { config, driverPath, log, failpoint } = options;
  const { ports, parts, refreshFiles, stop } = await startShell(config, log, async (held) => {
    const driver = loadDriverDocument(driverPath);
    const rounds: Round[] = [];
    const begin = async (name: string, server: OpenServer, common: Common, resources: Resources) => {
      rounds.push(...(await runFurther(name, server, common, resources)));
    };
    const fleet = await openFleet({ config, log, resources: held, failpoint, begin });
    const { main, servers, metrics } = fleet;
    const tokens = keepFile(held, await watched(config.PROVISIONER_TOKEN_FILE, parseProvisionerTokens, log));
    await main.context.ensureTemplate();

    watchSessions(config, main, held);
    const served = createControl({
      config,
      servers,
      driver,
      provisioners: tokens.current,
      metrics,
      log,
      failpoint,
    });
    const [upkeep, sizes] = upkeepOf(config, main);
    rounds.push(...upkeep.rounds, ...sizes.rounds);
    return {
      metrics,
      listeners: { port: { name: 'control', port: config.LISTEN_PORT, served } },
      upkeep: [{ ...upkeep, onStart: ({ nudge }) => main.attach(nudge) }, sizes],
      requestsMs: REQUESTS_END_MS,
      leaving: [{ name: 'further servers', timeoutMs: FURTHER_SERVERS_END_MS, run: () => fleet.stop() }],
      parts: {
        context: main.context,
        servers,
        rounds,
        inFlight: () => servers.all.reduce((sum, one) => sum + (one.opened()?.mutations.taken ?? 0), 0),
      },
    };
  });
  return { ...ports, ...parts, refreshFiles, stop };
}
