import {
  ConcurrencyLimit,
  closeAll,
  closeNow,
  countTlsExpiry,
  type Held,
  hold,
  type Listener,
  type ListenOptions,
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
import { OBJECT_STORE } from '@space/contracts/objectstore';
import type { PaceOptions } from './api/slow-callers.ts';
import { handlers } from './app.ts';
import { MOST_TRIALS } from './byok/credentials/trials.ts';
import type { Config } from './config.ts';
import type { Context } from './context.ts';
import { openDataPlane } from './data-plane.ts';
import { loadDriver } from './driver.ts';
import { openContext } from './open.ts';
import { sweepDeadPrefixes } from './upkeep/dead-prefixes.ts';
import { finishPending } from './upkeep/pending.ts';

/** Verifications wait for somebody else's server and have a limit of their own; so many places are left beside them. */
const MUTATIONS = { active: 32 + MOST_TRIALS, queued: 256 };
const UPKEEP_INTERVAL_MS = 15_000;
/** A drop that no request has touched for so long is nobody's. */
const ABANDONED_SECONDS = 60;
/** So long others wait, and a transfer is slow, before it ends for them. */
const PRESSED_WINDOW_MS = 10_000;
/** The edge of the data plane has time-outs of its own: a body may take as long as it moves. */
const DATA_LIMITS = { maxHeaderSize: 32 * 1024, headersTimeout: 10_000, requestTimeout: 0 };

export interface Broker {
  readonly port: number;
  readonly dataPort: number;
  readonly metricsPort: number;
  /** The upkeep's rounds, to be run by hand where nobody wants to wait for them. */
  readonly rounds: readonly Round[];
  readonly context: Context;
  /** Looks at the mounted files now instead of in a moment. */
  refreshFiles(): Promise<void>;
  stop(): Promise<boolean>;
}

export interface BrokerOptions {
  readonly config: Config;
  /** Where the driver documents lie. */
  readonly driverDirectory: string;
  readonly log: Logger;
  readonly failpoint?: (name: string) => void;
  /** When a body is too slow; a test does not want to wait a minute. */
  readonly pace?: Partial<PaceOptions>;
}

/** Starts a broker, fail-closed and in this order: driver documents, keys, registry, tokens, listeners. */
export async function startBroker(options: BrokerOptions): Promise<Broker> {
  const { config, log } = options;
  const held: Held = { closers: [], files: [] };
  try {
    const driver = loadDriver(options.driverDirectory);
    const { context, registry, reseal, managed, nameKey, grants, shares } = await openContext(
      config,
      log,
      held,
      options.failpoint,
    );
    const { connections } = context;
    const provisioners = hold(
      held,
      await watched(config.PROVISIONER_TOKEN_FILE, parseProvisionerTokens, log),
    );

    const control = createControlApp({
      contract: OBJECT_STORE,
      handlers: handlers(context),
      documents: { '/v1/driver': driver.contract, '/v1/driver/credentials': driver.credentials },
      authorities: {
        provisioner: provisionerAuthority(provisioners.current),
        capsule: capsuleAuthority(context.capsules.find),
      },
      limits: {
        caller: { perSecond: config.CAPSULE_REQUESTS_PER_SECOND, burst: config.CAPSULE_REQUESTS_BURST },
        refusals: { perSecond: config.REFUSALS_PER_SECOND, burst: config.REFUSALS_BURST },
      },
      mutations: new ConcurrencyLimit(MUTATIONS),
      log,
      metrics: registry,
      translate: toServiceError,
      failpoint: context.failpoint,
    });
    // Before anybody is let in; where the bucket is away, the first who asks hears of it.
    const { round } = context.epochs;
    await round
      .run(new AbortController().signal)
      .catch((error: unknown) => log.warn({ err: error }, 'the epoch of the registry could not be compared'));
    const data = openDataPlane({
      connections,
      s3: managed.s3,
      upkeep: managed.upkeep,
      shares,
      counts: context.metrics,
      secret: nameKey,
      defaultQuotaBytes: context.defaultQuotaBytes,
      evidence: {
        bindings: context.bindings,
        epochs: context.epochs,
        onForged: context.onForged,
      },
      presignedSeconds: config.PRESIGNED_URL_SECONDS,
      entryBytes: config.QUOTA_ENTRY_BYTES,
      openUploads: config.OPEN_UPLOADS,
      counters: context.metrics,
      grants,
      limits: {
        caller: { perSecond: config.OBJECT_REQUESTS_PER_SECOND, burst: config.OBJECT_REQUESTS_BURST },
        refusals: { perSecond: config.REFUSALS_PER_SECOND, burst: config.REFUSALS_BURST },
        streams: config.OBJECT_STREAMS,
      },
      pace: {
        pressedLeastBytes: (config.OBJECT_CONTENDED_BYTES_PER_SECOND * PRESSED_WINDOW_MS) / 1_000,
        pressedWindowMs: PRESSED_WINDOW_MS,
        ...options.pace,
      },
      log,
      metrics: registry,
    });
    held.closers.push(() => data.close());

    const host = config.LISTEN_HOST;
    const metricsServer = await serveMetrics(registry.registry, { host, port: config.METRICS_PORT });
    held.closers.push(() => closeNow(metricsServer));
    const listeners: Listener[] = [];
    const { TLS_CERT_FILE: cert, TLS_KEY_FILE: key } = config;
    const tls =
      cert && key
        ? hold(
            held,
            await watchTls({ cert, key }, (material) => {
              for (const listener of listeners) listener.useTls(material);
            }),
          )
        : undefined;
    if (tls !== undefined) countTlsExpiry(registry.registry, tls);
    const serving = async (
      edge: Parameters<typeof listen>[0],
      { name, port, limits = {} }: Pick<ListenOptions, 'name' | 'port' | 'limits'>,
    ) => {
      const listener = await listen(edge, {
        name,
        host,
        port,
        limits,
        tls: tls?.current(),
        connections: { total: config.CONNECTIONS, perAddress: config.CONNECTIONS_PER_ADDRESS },
        log,
        metrics: registry,
      });
      listeners.push(listener);
      // It may have been exchanged while the listener was being opened.
      if (tls !== undefined) listener.useTls(tls.current());
      return listener;
    };
    const controlListener = await serving(control, { name: 'control', port: config.LISTEN_PORT });
    held.closers.push(() => closeNow(controlListener.server));
    const dataListener = await serving(data, { name: 'data', port: config.DATA_PORT, limits: DATA_LIMITS });
    held.closers.push(() => closeNow(dataListener.server));

    const rounds = [
      finishPending(context, ABANDONED_SECONDS),
      sweepDeadPrefixes(context),
      ...data.rounds,
      context.epochs.round,
      reseal,
    ];
    const upkeep = startUpkeep({
      rounds,
      log,
      intervalMs: UPKEEP_INTERVAL_MS,
      metrics: registry,
    });
    const ports = {
      port: portOf(controlListener.server),
      dataPort: portOf(dataListener.server),
      metricsPort: portOf(metricsServer),
    };
    log.info({ ...ports, tls: tls !== undefined }, 'listening');

    return {
      ...ports,
      rounds,
      context,
      refreshFiles: async () => {
        for (const file of held.files) await file.refresh();
      },
      stop: () =>
        shutDown(
          [
            {
              name: 'requests',
              timeoutMs: 60_000,
              run: async () => {
                await Promise.all(listeners.map((listener) => listener.close()));
              },
            },
            { name: 'upkeep', timeoutMs: 20_000, run: () => upkeep.stop() },
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
