import { type Round, ServiceError } from '@space/broker-kit';
import type { Context } from '../context.ts';
import { PRUNES, prune, serverTime } from '../registry/retention.ts';

/**
 * By how many milliseconds the server's clock may run ahead of ours from round to round; the time of a suspended
 * machine does not count either.
 */
const LONGEST_LEAP_MS = 30 * 86_400_000;

/**
 * Deletes rows after their retention time, since the registry would otherwise grow without end. The server's clock
 * decides, and a deletion is final, so nothing is deleted while that clock is far ahead of the time that has passed in
 * this process.
 */
export function forgetOld({ connections }: Context, days: number, elapsed = () => performance.now()): Round {
  let before: number | undefined;
  return {
    name: 'retention',
    gapMs: 3_600_000,
    run: async (stopping) => {
      const ahead = (await connections.session(serverTime)) - elapsed();
      if (before !== undefined && ahead - before > LONGEST_LEAP_MS)
        throw new ServiceError(
          'unavailable',
          'the clock of the server has jumped: correct it, or restart the broker if it is right; until then nothing old is deleted',
        );
      before = ahead;
      for (const one of PRUNES) {
        let more = true;
        while (more && !stopping.aborted)
          more = await connections.transaction((session) => prune(session, one, days));
      }
    },
  };
}
