import { type Round, ServiceError } from '@space/broker-kit';
import type { Context } from '../context.ts';
import { PRUNES, prune, serverTime } from '../registry/retention.ts';

/** By which the server's clock may go ahead of ours from round to round: also a machine that slept does not count that. */
const LONGEST_LEAP_MS = 30 * 86_400_000;

/**
 * Takes what was kept long enough out of the registry, which else would grow for ever. It goes by the server's clock, and what
 * a wrong one takes is gone for good: nothing is taken while the clock is far ahead of the time that went by here.
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
          'the clock of the server has leapt: set it, or start the broker anew if it is right; until then nothing old is forgotten',
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
