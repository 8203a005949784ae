import type { Round } from '@space/broker-kit';
import type { Context } from '../context.ts';
import { dropRole } from '../operations/finish.ts';
import { forgetLeftoverRole, isLeftoverRole, leftoverRoles } from '../registry/rows.ts';

/** Drops roles that were left behind by their databases, as soon as nobody refers to them; logs who does. */
export function dropLeftovers({ connections, metrics, log }: Context): Round {
  return {
    name: 'leftover roles',
    gapMs: 60_000,
    run: async (stopping) => {
      const culprits = new Map<string, number>();
      let left = 0;
      for (const role of await connections.session(leftoverRoles)) {
        for (const culprit of role.culprits) culprits.set(culprit, (culprits.get(culprit) ?? 0) + 1);
        const gone =
          role.culprits.length === 0 &&
          !stopping.aborted &&
          (await connections.transaction(async (session) => {
            // A move may have begun to use it again since.
            if (!(await isLeftoverRole(session, role.name))) return true;
            const dropped = await dropRole(session, role.name);
            if (dropped) await forgetLeftoverRole(session, role.name);
            return dropped;
          }));
        if (!gone) left += 1;
      }
      metrics.leftoverRoles.set(left);
      for (const [culprit, roles] of culprits)
        log.warn({ culprit, roles }, 'grants of this workload keep roles of dropped databases');
    },
  };
}
