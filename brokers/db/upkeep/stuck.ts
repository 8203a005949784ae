import { randomBytes } from 'node:crypto';
import type { Round } from '@space/broker-kit';
import { audit } from '@space/broker-kit/principals';
import type { Context } from '../context.ts';
import { observe } from '../isolation/observe.ts';
import { endSessions, withCut } from '../operations/cut.ts';
import { closeByName } from '../registry/rows.ts';

/**
 * Closes databases with sessions that cannot be ended and that delay all drops, so that no further ones are added. An
 * administrator opens them again.
 */
export function closeStuck(context: Context): Round {
  const { blockers, metrics, log } = context;
  return {
    name: 'stuck sessions',
    gapMs: 5_000,
    run: async () => {
      const stuck = await blockers.stuck();
      metrics.stuckSessions.set(stuck.length);
      for (const name of new Set(stuck)) {
        const closed = await close(context, name);
        if (closed)
          log.error({ database: name }, 'closed: its session cannot be ended, and drops wait for it');
      }
    },
  };
}

function close(context: Context, name: string): Promise<boolean> {
  const traceId = randomBytes(16).toString('hex');
  return withCut(
    context,
    async (session, cut) => {
      const workload = await closeByName(session, name);
      if (workload === undefined) return false;
      await cut([{ name, ...(await observe(session, name)) }]);
      const entry = { traceId, operation: 'upkeep.close', authority: 'broker', outcome: 'closed' };
      await audit(session, { ...entry, ...workload });
      return true;
    },
    (session, closed) => endSessions(context, session, closed ? [name] : []),
  );
}
