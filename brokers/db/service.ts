import {
  keepFile,
  type Logger,
  parseProvisionerTokens,
  type Round,
  SharedSlots,
  watched,
} from '@space/broker-kit';
import { startShell } from '@space/broker-kit/service';
import { createControl } from './app.ts';
import type { Config } from './config.ts';
import type { Context } from './context.ts';
import { loadDriverDocument } from './driver.ts';
import { sizing } from './limits/sweep.ts';
import { startWatch, type Watch } from './limits/watch.ts';
import { openContext } from './open.ts';
import { repairDrift } from './upkeep/drift.ts';
import { dropLeftovers } from './upkeep/leftovers.ts';
import { finishPending } from './upkeep/pending.ts';
import { refill } from './upkeep/refill.ts';
import { forgetOld } from './upkeep/retention.ts';
import { closeStuck } from './upkeep/stuck.ts';

/** Many more than there are connections: who waits for a clone or a checkpoint keeps nobody who waits for neither. */
const MUTATIONS = { total: 32, perKey: 12, queued: 256, waitMs: 60_000 };
const REQUESTS_END_MS = 60_000;
const UPKEEP_INTERVAL_MS = 15_000;
/** A drop that no request has touched for so long is nobody's. */
const ABANDONED_SECONDS = 60;

export interface Service {
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

export interface ServiceOptions {
  readonly config: Config;
  readonly driverPath: string;
  readonly log: Logger;
  readonly failpoint?: (name: string) => void;
}

/** Starts the broker, fail-closed and in this order: driver document, keys, server, registry, listener. */
export async function startService(options: ServiceOptions): Promise<Service> {
  const { config, driverPath, log, failpoint } = options;
  const { ports, parts, refreshFiles, stop } = await startShell(config, log, async (held) => {
    const driver = loadDriverDocument(driverPath);
    const opened = await openContext(config, log, held, failpoint);
    const { context, acceptedOpen, registry: metrics } = opened;
    const tokens = keepFile(held, await watched(config.PROVISIONER_TOKEN_FILE, parseProvisionerTokens, log));
    const mutations = new SharedSlots(MUTATIONS);
    await context.ensureTemplate();

    const watch = watchSessions(options, opened);
    held.closers.push(() => watch.stop());
    const served = createControl({
      config,
      context,
      driver,
      provisioners: tokens.current,
      mutations,
      metrics,
    });
    const rounds = [
      refill(context, config.SPARE_DATABASES),
      finishPending(context, ABANDONED_SECONDS),
      repairDrift(context, acceptedOpen),
      dropLeftovers(context),
      closeStuck(context),
      forgetOld(context, config.RETENTION_DAYS),
    ];
    const sizes = sizing(context);
    return {
      metrics,
      listeners: { port: { name: 'control', port: config.LISTEN_PORT, served } },
      upkeep: [
        {
          rounds,
          intervalMs: UPKEEP_INTERVAL_MS,
          onStart: ({ nudge }) => opened.attach({ nudge, quietFor: () => mutations.quietFor() }),
        },
        // Apart from the rest, none of which may keep a Capsule open that is over its quota.
        { rounds: [sizes], intervalMs: config.SIZE_INTERVAL_MS },
      ],
      requestsMs: REQUESTS_END_MS,
      parts: { context, rounds: [...rounds, sizes], inFlight: () => mutations.taken },
    };
  });
  return { ...ports, ...parts, refreshFiles, stop };
}

/** Ends sessions that hold too much, within the bounds of the configuration. */
function watchSessions(
  { config, log }: ServiceOptions,
  { address, context }: Pick<Awaited<ReturnType<typeof openContext>>, 'address' | 'context'>,
): Watch {
  return startWatch({
    address,
    bounds: {
      locks: config.ROLE_LOCKS,
      transactionSeconds: config.TRANSACTION_SECONDS,
      idleInTransactionSeconds: config.IDLE_TRANSACTION_SECONDS,
    },
    intervalMs: config.WATCH_INTERVAL_MS,
    log,
    metrics: context.metrics,
    onGreedy: (pid) => {
      context.blockers
        .wasTold(pid)
        .catch((error: unknown) => log.debug({ err: error }, 'who holds too many locks is not told'));
    },
  });
}
