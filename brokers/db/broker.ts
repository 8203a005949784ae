import type { Server } from 'node:http';
import {
  ConcurrencyLimit,
  type Listener,
  type Logger,
  listen,
  portOf,
  serveMetrics,
  shutDown,
} from '@space/broker-kit';
import { createBrokerApp } from './app.ts';
import { createAuthorities, parseProvisionerTokens } from './authorities.ts';
import type { Config } from './config.ts';
import { loadDriverDocument } from './driver.ts';
import { type Closer, CONNECTIONS, closeAll, openContext, watched } from './open.ts';
import type { Context } from './operations/context.ts';
import { ensureTemplate } from './spares/template.ts';
import { watchTls } from './tls.ts';
import { repairDrift } from './upkeep/drift.ts';
import { type Round, startUpkeep } from './upkeep/loop.ts';
import { finishPending } from './upkeep/pending.ts';
import { refill } from './upkeep/refill.ts';

/** One working connection is left to the upkeep. */
const MUTATIONS = { active: CONNECTIONS.work - 1, queued: 256 };
const UPKEEP_INTERVAL_MS = 15_000;
/** A drop that no request has touched for so long is nobody's. */
const ABANDONED_SECONDS = 60;

export interface Broker {
  readonly port: number;
  readonly metricsPort: number;
  /** The upkeep's rounds, to be run by hand where nobody wants to wait for them. */
  readonly rounds: readonly Round[];
  readonly context: Context;
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
  const closers: Closer[] = [];
  try {
    const driver = loadDriverDocument(driverPath);
    const opened = await openContext(config, log, closers, failpoint);
    const { context, acceptedOpen, registry } = opened;
    const provisioners = await watched(config.PROVISIONER_TOKEN_FILE, parseProvisionerTokens, log);
    closers.push(provisioners.close);
    await ensureTemplate(context.connections, opened.address, context.spares);

    const edge = createBrokerApp({
      context,
      driver,
      authorities: createAuthorities(context.connections, provisioners),
      limits: {
        caller: { perSecond: config.CAPSULE_REQUESTS_PER_SECOND, burst: config.CAPSULE_REQUESTS_BURST },
        refusals: { perSecond: config.REFUSALS_PER_SECOND, burst: config.REFUSALS_BURST },
      },
      mutations: new ConcurrencyLimit(MUTATIONS),
      log,
      metrics: registry,
    });
    const host = config.LISTEN_HOST;
    const metricsServer = await serveMetrics(registry.registry, { host, port: config.METRICS_PORT });
    closers.push(() => closeNow(metricsServer));
    let listener: Listener | undefined;
    const { TLS_CERT_FILE: cert, TLS_KEY_FILE: key } = config;
    const tls =
      cert && key ? await watchTls({ cert, key }, (material) => listener?.useTls(material)) : undefined;
    if (tls !== undefined) closers.push(tls.close);
    const serving = await listen(edge, { host, port: config.LISTEN_PORT, log, tls: tls?.current() });
    listener = serving;

    const rounds = [
      refill(context, config.SPARE_DATABASES),
      finishPending(context, ABANDONED_SECONDS),
      repairDrift(context, acceptedOpen),
    ];
    const upkeep = startUpkeep({ rounds, log, intervalMs: UPKEEP_INTERVAL_MS });
    opened.onNudge(upkeep.nudge);
    log.info({ port: portOf(serving.server), tls: tls !== undefined }, 'listening');

    return {
      port: portOf(serving.server),
      metricsPort: portOf(metricsServer),
      rounds,
      context,
      stop: () =>
        shutDown(
          [
            { name: 'requests', timeoutMs: 60_000, run: () => serving.close() },
            { name: 'upkeep', timeoutMs: 20_000, run: () => upkeep.stop() },
            { name: 'files and connections', timeoutMs: 5_000, run: () => closeAll(closers) },
          ],
          log,
        ),
    };
  } catch (error) {
    await closeAll(closers);
    throw error;
  }
}

function closeNow(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}
