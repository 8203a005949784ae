import { keepFile, type Logger, parseProvisionerTokens, type Round, watched } from '@space/broker-kit';
import { startShell } from '@space/broker-kit/service';
import type { PaceOptions } from './api/slow-callers.ts';
import { createControl } from './app.ts';
import type { Config } from './config.ts';
import type { Context } from './context.ts';
import { type OpenedPlane, openDataPlane } from './data-plane.ts';
import { loadDriver } from './driver.ts';
import { openContext } from './open.ts';
import { sweepDeadPrefixes } from './upkeep/dead-prefixes.ts';
import { finishPending } from './upkeep/pending.ts';

const REQUESTS_END_MS = 60_000;
const UPKEEP_INTERVAL_MS = 15_000;
/** A drop that no request has continued for this many seconds counts as abandoned. */
const ABANDONED_SECONDS = 60;
/** Milliseconds in which a transfer must be fast enough while others wait for its slot. */
const PRESSED_WINDOW_MS = 10_000;
/** The data plane has its own time-outs of bodies, which may take as long as they move. */
const DATA_LIMITS = { maxHeaderSize: 32 * 1024, headersTimeout: 10_000, requestTimeout: 0 };

export interface Service {
  readonly port: number;
  readonly dataPort: number;
  readonly metricsPort: number;
  /** The rounds of the upkeep, which tests run directly. */
  readonly rounds: readonly Round[];
  readonly context: Context;
  /** Reads the mounted files now. */
  refreshFiles(): Promise<void>;
  stop(): Promise<boolean>;
}

export interface ServiceOptions {
  readonly config: Config;
  /** The directory of the driver documents. */
  readonly driverDirectory: string;
  readonly log: Logger;
  readonly failpoint?: (name: string) => void;
  /** When a body is too slow; a test sets shorter times. */
  readonly pace?: Partial<PaceOptions>;
}

/**
 * Starts the broker in this order: driver documents, keys, registry, tokens, listeners. @throws if any of these is not
 * safe
 */
export async function startService(options: ServiceOptions): Promise<Service> {
  const { config, log } = options;
  const { ports, parts, refreshFiles, stop } = await startShell(config, log, async (held) => {
    const driver = loadDriver(options.driverDirectory);
    const opened = await openContext(config, log, held, options.failpoint);
    const { context, registry: metrics, reseal } = opened;
    const tokens = keepFile(held, await watched(config.PROVISIONER_TOKEN_FILE, parseProvisionerTokens, log));
    const control = createControl({ config, context, driver, provisioners: tokens.current, metrics });
    await compareEpochs(context, log);
    const data = openData(options, opened);
    held.closers.push(() => data.close());

    const rounds = [
      finishPending(context, ABANDONED_SECONDS),
      sweepDeadPrefixes(context),
      ...data.rounds,
      context.epochs.round,
      reseal,
    ];
    return {
      metrics,
      listeners: {
        port: { name: 'control', port: config.LISTEN_PORT, served: control },
        dataPort: { name: 'data', port: config.DATA_PORT, limits: DATA_LIMITS, served: data },
      },
      upkeep: [{ rounds, intervalMs: UPKEEP_INTERVAL_MS }],
      requestsMs: REQUESTS_END_MS,
      parts: { context, rounds },
    };
  });
  return { ...ports, ...parts, refreshFiles, stop };
}

/** Compares the epochs before anybody is admitted. If the bucket does not answer, the first callers get the error. */
async function compareEpochs({ epochs }: Context, log: Logger): Promise<void> {
  await epochs.round
    .run(new AbortController().signal)
    .catch((error: unknown) => log.warn({ err: error }, 'the epoch of the registry could not be compared'));
}

/** Opens the data plane with the limits of the configuration. */
function openData(
  { config, log, pace }: ServiceOptions,
  { context, registry, managed, nameKey, grants, shares }: Awaited<ReturnType<typeof openContext>>,
): OpenedPlane {
  return openDataPlane({
    connections: context.connections,
    s3: managed.s3,
    upkeep: managed.upkeep,
    isOwnServer: config.S3_CREATE_BUCKET,
    shares,
    secret: nameKey,
    defaultQuotaBytes: context.defaultQuotaBytes,
    evidence: context,
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
      ...pace,
    },
    log,
    metrics: registry,
  });
}
