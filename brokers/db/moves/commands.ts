import { type Command, UsageError } from '@space/broker-kit/administrator';
import type { Servers } from '../servers/router.ts';
import { takeBack } from './back.ts';
import { beginMove } from './begin.ts';
import { landMove } from './land.ts';

const USAGE = 'move CAPSULE SERVER [--copied ATTEMPT] | move CAPSULE --back';

/**
 * The commands of a move. `begin` returns what is to be copied, somebody copies it with pg_dump, and a second command
 * ends the move. Each command may be repeated after an interruption.
 */
export const MOVE_COMMANDS: Readonly<Record<string, Command<Servers>>> = {
  move: {
    usage: USAGE,
    about:
      'move a Capsule to another server: close it and say what to copy; once that is copied, switch; or take it back until then',
    run: async (servers, traceId, args) => {
      const [capsule, target, flag, attempt, ...more] = args;
      if (capsule === undefined || target === undefined || more.length > 0) throw new UsageError(USAGE);
      if (target === '--back') {
        if (flag !== undefined) throw new UsageError(USAGE);
        return { stays: capsule, ...told(await takeBack(servers, traceId, capsule)) };
      }
      if (flag === undefined)
        return begun(capsule, target, await beginMove(servers, traceId, capsule, target));
      if (flag !== '--copied' || attempt === undefined) throw new UsageError(USAGE);
      const away = await landMove(servers, traceId, capsule, target, attempt);
      return { moved: capsule, to: target, ...told(away) };
    },
  },
};

function begun(capsule: string, to: string, move: Awaited<ReturnType<typeof beginMove>>): object {
  if (move.kind === 'moved') return { moved: capsule, to, ...told(move.away) };
  const { from, attempt, copies } = move;
  return { moving: capsule, from, to, attempt, copies };
}

/** Servers that may still have parts of the Capsule; repeating the command drops these once the servers answer. */
const told = (away: readonly string[]) => (away.length === 0 ? {} : { unanswered: away });
