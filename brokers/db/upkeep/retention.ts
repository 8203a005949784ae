import type { Round } from '@space/broker-kit';
import type { Context } from '../context.ts';
import { PRUNES, prune } from '../registry/retention.ts';

/** Takes what was kept long enough out of the registry, which else would grow for ever. */
export function forgetOld({ connections }: Context, days: number): Round {
  return {
    name: 'retention',
    gapMs: 3_600_000,
    run: async (stopping) => {
      for (const one of PRUNES) {
        let more = true;
        while (more && !stopping.aborted)
          more = await connections.transaction((session) => prune(session, one, days));
      }
    },
  };
}
