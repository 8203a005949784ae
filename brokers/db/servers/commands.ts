import { ServiceError } from '@space/broker-kit';
import { type Command, UsageError } from '@space/broker-kit/administrator';
import type { Context } from '../context.ts';
import { connectionsGranted } from '../limits/rows.ts';
import type { Servers } from './router.ts';
import { type DatabaseServer, isReady, requireUsable } from './server.ts';

/** Reads rows from the servers that the arguments name, or from all, as one JSON object per line. */
export async function linesOf(
  servers: Servers,
  args: readonly string[],
  read: (context: Context) => Promise<readonly object[]>,
): Promise<string> {
  const several = servers.all.length > 1;
  const lines: string[] = [];
  for (const server of namedBy(servers, args)) {
    for (const row of await read(requireUsable(server).context))
      lines.push(JSON.stringify(several ? { server: server.name, ...row } : row));
  }
  return lines.join('\n');
}

function namedBy({ all }: Servers, [name, ...more]: readonly string[]): readonly DatabaseServer[] {
  if (more.length > 0) throw new UsageError('one server at most is named');
  if (name === undefined) return all;
  const server = all.find((one) => one.name === name);
  if (server === undefined) throw new ServiceError('not_found', 'no such server');
  return [server];
}

/** The contexts of all servers, each of which must be usable. */
export function everyContext({ all }: Servers): readonly Context[] {
  return all.map((server) => requireUsable(server).context);
}

/** The context of the Capsule's server. */
export async function contextOf(servers: Servers, capsule: string): Promise<Context> {
  return (await servers.of(capsule)).context;
}

export const SERVER_COMMANDS: Readonly<Record<string, Command<Servers>>> = {
  servers: {
    usage: 'servers',
    about: 'the PostgreSQL servers, what is on each and whether it is used, one JSON object a line',
    run: async ({ all }, _traceId, args) => {
      if (args.length > 0) throw new UsageError('servers takes no argument');
      const lines: string[] = [];
      for (const server of all) lines.push(JSON.stringify(await describe(server)));
      return lines.join('\n');
    },
  },
};

async function describe(server: DatabaseServer): Promise<object> {
  const { name, weight, drain } = server;
  const state = server.state();
  const about = { name, weight, drain, state: state.kind };
  if (!isReady(server)) return { ...about, ...(state.kind === 'ready' ? {} : { why: state.why }) };
  const { connections, connectionLimit } = requireUsable(server).context;
  const [counts] = await connections.lookup.read<{ capsules: number; databases: number }>(
    'count what is on server',
    `SELECT (SELECT count(*) FROM broker.capsule WHERE state <> 'finalized')::int AS capsules,
       (SELECT count(*) FROM broker.database WHERE state <> 'dropped')::int AS databases`,
  );
  const granted = await connectionsGranted(connections.lookup, '', connectionLimit);
  const leaving = await connections.lookup.read<{ capsule: string; to: string }>(
    'list moves',
    `SELECT capsule_id AS capsule, server AS to FROM broker.departure WHERE state <> 'gone' ORDER BY capsule_id`,
  );
  return {
    ...about,
    ...counts,
    connections: { promised: granted.others, capacity: granted.capacity },
    // Closed until the move ends or is reverted.
    ...(leaving.length === 0 ? {} : { leaving }),
  };
}
