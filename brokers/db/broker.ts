import {
  ConcurrencyLimit,
  closeAll,
  closeNow,
  countTlsExpiry,
  type Held,
  hold,
  type Listener,
  type Logger,
  listen,
  parseProvisionerTokens,
  portOf,
  type Round,
  serveMetrics,
  shutDown,
  startUpkeep,
  watched,
  watchTls,
} from '@space/broker-kit';
import { capsuleAuthority, createControlApp, provisionerAuthority } from '@space/broker-kit/control';
import { toServiceError } from '@space/broker-kit/postgres';
import { findPrincipal } from '@space/broker-kit/principals';
import { DATABASE } from '@space/contracts/database';
import { handlers } from './app.ts';
import type { Config } from './config.ts';
import { loadDriverDocument } from './driver.ts';
import { sizing } from './limits/sweep.ts';
import { startWatch } from './limits/watch.ts';
import { openContext } from './open.ts';
import type { Context } from './operations/context.ts';
import { repairDrift } from './upkeep/drift.ts';
import { dropLeftovers } from './upkeep/leftovers.ts';
import { finishPending } from './upkeep/pending.ts';
import { refill } from './upkeep/refill.ts';
import { forgetOld } from './upkeep/retention.ts';
import { closeStuck } from './upkeep/stuck.ts';

/** Many more than there are connections: who waits for a clone or a checkpoint keeps nobody who waits for neither. */
const MUTATIONS = { active: 32, queued: 256 };
const UPKEEP_INTERVAL_MS = 15_000;
/** A drop that no request has touched for so long is nobody's. */
const ABANDONED_SECONDS = 60;

export interface Broker {
  readonly port: number;
  readonly metricsPort: number;
  /** The upkeep's rounds, to be run by hand where nobody wants to wait for them. */
  readonly rounds: readonly Round[];
  readonly context: Context;
  /** Looks at the mounted files now instead of in a moment. */
  refreshFiles(): Promise<void>;
  /** Mutations that run now. */
  inFlight(): number;
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
  const held: Held = { closers: [], files: [] };
  try {
    const driver = loadDriverDocument(driverPath);
    const opened = await openContext(config, log, held, failpoint);
    const { context, acceptedOpen, registry } = opened;
    const provisioners = hold(
      held,
      await watched(config.PROVISIONER_TOKEN_FILE, parseProvisionerTokens, log),
    );
    const mutations = new ConcurrencyLimit(MUTATIONS);
    await context.ensureTemplate();

    const { connections } = context;
    const watch = startWatch({
      address: opened.address,
      bounds: {
        locks: config.ROLE_LOCKS,
        transactionSeconds: config.TRANSACTION_SECONDS,
        idleInTransactionSeconds: config.IDLE_TRANSACTION_SECONDS,
      },
      intervalMs: config.WATCH_INTERVAL_MS,
      log,
      metrics: context.metrics,
    });
    held.closers.push(() => watch.stop());
    const edge = createControlApp({
      contract: DATABASE,
      handlers: handlers(context),
      documents: { '/v1/driver': driver },
      authorities: {
        provisioner: provisionerAuthority(provisioners.current),
        capsule: capsuleAuthority((digest) => findPrincipal(connections.lookup, digest)),
      },
      limits: {
        caller: { perSecond: config.CAPSULE_REQUESTS_PER_SECOND, burst: config.CAPSULE_REQUESTS_BURST },
        refusals: { perSecond: config.REFUSALS_PER_SECOND, burst: config.REFUSALS_BURST },
      },
      mutations,
      log,
      metrics: registry,
      translate: toServiceError,
      failpoint: context.failpoint,
    });
    const host = config.LISTEN_HOST;
    const metricsServer = await serveMetrics(registry.registry, { host, port: config.METRICS_PORT });
    held.closers.push(() => closeNow(metricsServer));
    let listener: Listener | undefined;
    const { TLS_CERT_FILE: cert, TLS_KEY_FILE: key } = config;
    const tls =
      cert && key ? await watchTls({ cert, key }, (material) => listener?.useTls(material)) : undefined;
    if (tls !== undefined) countTlsExpiry(registry.registry, hold(held, tls));
    const serving = await listen(edge, {
      name: 'control',
      host,
      port: config.LISTEN_PORT,
      tls: tls?.current(),
      connections: { total: config.CONNECTIONS, perAddress: config.CONNECTIONS_PER_ADDRESS },
      log,
      metrics: registry,
    });
    listener = serving;
    // It may have been exchanged while the listener was being opened.
    if (tls !== undefined) serving.useTls(tls.current());

    const rounds = [
      refill(context, config.SPARE_DATABASES),
      finishPending(context, ABANDONED_SECONDS),
      repairDrift(context, acceptedOpen),
      dropLeftovers(context),
      closeStuck(context),
      forgetOld(context, config.RETENTION_DAYS),
    ];
    const upkeep = startUpkeep({
      rounds,
      log,
      intervalMs: UPKEEP_INTERVAL_MS,
      metrics: registry,
    });
    // Apart from the rest, none of which may keep a Capsule open that is over its quota.
    const sizes = sizing(context);
    const measuring = startUpkeep({
      rounds: [sizes],
      log,
      intervalMs: config.SIZE_INTERVAL_MS,
      metrics: registry,
    });
    opened.attach({ nudge: upkeep.nudge, quietFor: () => mutations.quietFor() });
    log.info({ port: portOf(serving.server), tls: tls !== undefined }, 'listening');

    return {
      port: portOf(serving.server),
      metricsPort: portOf(metricsServer),
      rounds: [...rounds, sizes],
      context,
      refreshFiles: async () => {
        for (const file of held.files) await file.refresh();
      },
      inFlight: () => mutations.running,
      stop: () =>
        shutDown(
          [
            { name: 'requests', timeoutMs: 60_000, run: () => serving.close() },
            {
              name: 'upkeep',
              timeoutMs: 20_000,
              run: async () => {
                await Promise.all([upkeep.stop(), measuring.stop()]);
              },
            },
            { name: 'files and connections', timeoutMs: 5_000, run: () => closeAll(held) },
          ],
          log,
        ),
    };
  } catch (error) {
    await closeAll(held);
    throw error;
  }
}
