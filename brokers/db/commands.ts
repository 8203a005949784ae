import { ServiceError } from '@space/broker-kit';
import { type Command, onlyCapsule, principalCommands, UsageError } from '@space/broker-kit/administrator';
import type { Session } from '@space/broker-kit/postgres';
import { audit, lockCapsule } from '@space/broker-kit/principals';
import type { Context } from './context.ts';
import { observeRegistered } from './isolation/observe.ts';
import { END_SESSIONS, reopeningStatements } from './isolation/statements.ts';
import { readAdmits } from './limits/rows.ts';
import { MOVE_COMMANDS } from './moves/commands.ts';
import { type Cut, withCut } from './operations/cut.ts';
import { dropForAdministrator } from './operations/drop.ts';
import { RESTORE_COMMANDS } from './restore.ts';
import { contextOf, everyContext, linesOf, SERVER_COMMANDS } from './servers/commands.ts';
import type { Servers } from './servers/router.ts';
import { WHEREABOUTS_COMMANDS } from './servers/whereabouts.ts';

const entry = (traceId: string, operation: string, capsule: string, outcome: string) => ({
  traceId,
  operation: `administrator.${operation}`,
  authority: 'administrator',
  capsule,
  outcome,
});

export const COMMANDS: Readonly<Record<string, Command<Servers>>> = {
  list: {
    usage: 'list [SERVER]',
    about: 'every Capsule with its state and databases, one JSON object a line',
    run: (servers, _traceId, args) => linesOf(servers, args, ({ connections }) => connections.session(list)),
  },
  ...SERVER_COMMANDS,
  ...WHEREABOUTS_COMMANDS,
  ...MOVE_COMMANDS,
  close: {
    usage: 'close CAPSULE',
    about: "refuse all logins to the Capsule's databases, and keep their contents",
    run: (servers, traceId, args) => setClosed(servers, traceId, onlyCapsule(args), true),
  },
  open: {
    usage: 'open CAPSULE',
    about: 'undo close; a database that its quota shuts stays shut',
    run: (servers, traceId, args) => setClosed(servers, traceId, onlyCapsule(args), false),
  },
  drop: {
    usage: 'drop CAPSULE',
    about: "drop the Capsule's databases, retire its principal and release its id; this cannot be undone",
    run: async (servers, traceId, args) => {
      const capsule = onlyCapsule(args);
      return { dropped: await dropForAdministrator(await contextOf(servers, capsule), traceId, capsule) };
    },
  },
  ...principalCommands<Servers>(
    'dbp',
    async (servers, capsule) => (await contextOf(servers, capsule)).connections,
    (servers, _session, capsule, principal) => servers.claim(capsule, principal),
  ),
  ...RESTORE_COMMANDS,
  rotate: {
    usage: 'rotate CAPSULE [APP] [--end-sessions] | rotate --all [--end-sessions]',
    about:
      'mark for a new password, which the next create (or provision) of each workload sets; with --end-sessions it first ends all sessions',
    run: rotate,
  },
};

function list(session: Session): Promise<object[]> {
  return session.read(
    'list capsules',
    `SELECT c.capsule_id AS capsule, c.state, c.life, c.changed_at AS since,
            coalesce(json_agg(json_build_object('app', d.app_id, 'name', d.name, 'state', d.state,
              'generation', d.generation, 'closed', d.closed, 'rotation_due', d.rotation_due, 'evicting', d.evicting) ORDER BY d.app_id)
              FILTER (WHERE d.state <> 'dropped'), '[]') AS databases
     FROM broker.capsule c LEFT JOIN broker.database d USING (capsule_id)
     GROUP BY c.capsule_id ORDER BY c.capsule_id`,
  );
}

async function setClosed(servers: Servers, traceId: string, capsule: string, closed: boolean) {
  const context = await contextOf(servers, capsule);
  const act = async (session: Session, cut: Cut) => {
    if ((await lockCapsule(session, capsule, 'UPDATE')) === undefined) throw unknown();
    const rows = await session.run<{ name: string; evicting: boolean }>(
      closed ? 'close databases' : 'open databases',
      `UPDATE broker.database SET closed = $2, changed_at = clock_timestamp()
       WHERE capsule_id = $1 AND state = 'ready' RETURNING name, evicting`,
      [capsule, closed],
    );
    const observed = await observeRegistered(session, capsule);
    if (closed) await cut(observed);
    const admits = await readAdmits(session, capsule, context.connectionLimit);
    // Until its sessions are ended, a database is opened only by the create that ends them.
    const evicting = new Set(rows.filter((row) => row.evicting).map(({ name }) => name));
    for (const { name, database, role } of closed ? [] : observed) {
      if (database !== 'valid' || !role) continue;
      await session.run('open database', reopeningStatements(name, evicting.has(name) ? undefined : admits));
    }
    await audit(session, entry(traceId, closed ? 'close' : 'open', capsule, closed ? 'closed' : 'opened'));
    return rows.map(({ name }) => name).sort();
  };
  const names = await withCut(context, act);
  // Sessions end after the commit: before it, a client whose session was ended could connect again.
  if (closed)
    await context.connections.session((session) => session.run('end sessions', END_SESSIONS, [names]));
  return { [closed ? 'closed' : 'opened']: names };
}

const END_SESSIONS_FLAG = '--end-sessions';

async function rotate(servers: Servers, traceId: string, args: readonly string[]) {
  const named = args.filter((arg) => arg !== END_SESSIONS_FLAG);
  const all = named.length === 1 && named[0] === '--all';
  const [capsule, app] = all ? [] : named;
  if (!all && (capsule === undefined || named.length > 2))
    throw new UsageError('rotate CAPSULE [APP], or --all');
  const contexts = capsule === undefined ? everyContext(servers) : [await contextOf(servers, capsule)];
  let marked = 0;
  for (const context of contexts)
    marked += await markRotation(context, traceId, [capsule, app], args.includes(END_SESSIONS_FLAG));
  if (marked === 0) throw unknown();
  return { marked };
}

/** Marks the selected databases of a server for rotation; returns how many there are. */
function markRotation(
  { connections }: Context,
  traceId: string,
  [capsule, app]: readonly [capsule: string | undefined, app: string | undefined],
  endSessions: boolean,
): Promise<number> {
  return connections.transaction(async (session) => {
    const [leaving] = await session.read<{ capsule: string }>(
      'find departures',
      "SELECT capsule_id AS capsule FROM broker.departure WHERE state <> 'gone' AND ($1::text IS NULL OR capsule_id = $1)",
      [capsule ?? null],
    );
    if (leaving !== undefined)
      throw new ServiceError(
        'unavailable',
        `Capsule ${leaving.capsule} is being moved: end that first, or take it back`,
      );
    const rows = await session.run<{ capsule: string; app: string }>(
      'mark rotation',
      `UPDATE broker.database SET rotation_due = true, evicting = evicting OR $3
       WHERE state = 'ready' AND ($1::text IS NULL OR capsule_id = $1) AND ($2::text IS NULL OR app_id = $2)
       RETURNING capsule_id AS capsule, app_id AS app`,
      [capsule ?? null, app ?? null, endSessions],
    );
    for (const row of rows) {
      await audit(session, { ...entry(traceId, 'rotate', row.capsule, 'marked'), app: row.app });
    }
    return rows.length;
  });
}

function unknown(): ServiceError {
  return new ServiceError('not_found', 'no such Capsule or database');
}
