import { type Resources, type Round, startUpkeep } from '@space/broker-kit';
import type { Config } from './config.ts';
import { sizing } from './limits/sweep.ts';
import { startWatch } from './limits/watch.ts';
import type { Common, OpenServer } from './open.ts';
import { repairDrift } from './upkeep/drift.ts';
import { dropLeftovers } from './upkeep/leftovers.ts';
import { finishPending } from './upkeep/pending.ts';
import { refill } from './upkeep/refill.ts';
import { forgetOld } from './upkeep/retention.ts';
import { closeStuck } from './upkeep/stuck.ts';

/** Work on each server beside requests. */

const UPKEEP_INTERVAL_MS = 15_000;
/** A drop that no request has continued for this many seconds counts as abandoned. */
const ABANDONED_SECONDS = 60;

interface RoundGroup {
  readonly rounds: readonly Round[];
  readonly intervalMs: number;
}

export function upkeepOf(
  config: Config,
  { context, acceptedOpen }: Pick<OpenServer, 'context' | 'acceptedOpen'>,
): readonly [upkeep: RoundGroup, sizes: RoundGroup] {
  const rounds = [
    refill(context, config.SPARE_DATABASES),
    finishPending(context, ABANDONED_SECONDS),
    repairDrift(context, acceptedOpen),
    dropLeftovers(context),
    closeStuck(context),
    forgetOld(context, config.RETENTION_DAYS),
  ];
  return [
    { rounds, intervalMs: UPKEEP_INTERVAL_MS },
    // This round has a loop of its own, so that no other round delays the shutting of a Capsule over its quota.
    { rounds: [sizing(context)], intervalMs: config.SIZE_INTERVAL_MS },
  ];
}

/** Ends sessions that hold too much, within the bounds of the configuration. */
export function watchSessions(
  config: Config,
  { address, context }: Pick<OpenServer, 'address' | 'context'>,
  resources: Resources,
): void {
  const { blockers, log, metrics, tellEnded } = context;
  const watch = startWatch({
    address,
    bounds: {
      locks: config.ROLE_LOCKS,
      transactionSeconds: config.TRANSACTION_SECONDS,
      idleInTransactionSeconds: config.IDLE_TRANSACTION_SECONDS,
    },
    intervalMs: config.WATCH_INTERVAL_MS,
    log,
    metrics,
    tellEnded,
    onGreedy: (pid) => {
      blockers
        .wasTold(pid)
        .catch((error: unknown) =>
          log.debug({ err: error }, 'the session with too many locks could not be looked up'),
        );
    },
  });
  resources.closers.push(() => watch.stop());
}

/** Begins this work on a further server; that of the first server is run by the service. Returns the rounds. */
export async function runFurther(
  name: string,
  server: OpenServer,
  { config, metrics }: Common,
  resources: Resources,
): Promise<readonly Round[]> {
  await server.context.ensureTemplate();
  watchSessions(config, server, resources);
  const groups = upkeepOf(config, server).map(({ rounds, intervalMs }) => ({
    rounds: rounds.map((round) => ({ ...round, name: `${round.name} (${name})` })),
    intervalMs,
  }));
  const { log } = server.context;
  const [first, second] = groups.map((group) => startUpkeep({ ...group, log, metrics }));
  server.attach(() => first?.nudge());
  resources.closers.push(() => Promise.all([first?.stop(), second?.stop()]));
  return groups.flatMap(({ rounds }) => rounds);
}
