import { type Command, UsageError } from '@space/broker-kit/administrator';
import type { Session } from '@space/broker-kit/postgres';
import { everyContext } from './commands.ts';
import type { Servers } from './router.ts';

/** Where the first server says that a Capsule is, and which servers have it: after a restore these may be two things. */
export interface Whereabouts {
  readonly capsule: string;
  /** As the first server notes it; null for one that it had before there were others. */
  readonly noted: string | null;
  readonly movingTo: string | null;
  /** Servers whose own registries have it, other than as a proof of what was dropped or has left. */
  readonly on: readonly string[];
  /** Its databases that those registries have and their servers have not. */
  readonly missing: readonly string[];
}

interface Note {
  readonly capsule: string;
  readonly noted: string;
  readonly movingTo: string | null;
}

const notes = (session: Session): Promise<Note[]> =>
  session.read(
    'list placements',
    'SELECT capsule_id AS capsule, server AS noted, moving_to AS "movingTo" FROM broker.placement ORDER BY capsule_id',
  );

const had = (session: Session): Promise<{ capsule: string; missing: string[] }[]> =>
  session.read(
    'compare registry',
    `SELECT c.capsule_id AS capsule,
       coalesce(json_agg(d.name ORDER BY d.name) FILTER (WHERE d.state = 'ready' AND p.oid IS NULL), '[]') AS missing
     FROM broker.capsule c LEFT JOIN broker.database d USING (capsule_id)
       LEFT JOIN pg_database p ON p.datname = d.name
     WHERE c.state <> 'finalized' GROUP BY c.capsule_id ORDER BY c.capsule_id`,
  );

/** @throws ServiceError where a server does not answer, since it may have what the others have not */
async function whereabouts(servers: Servers): Promise<Whereabouts[]> {
  const contexts = everyContext(servers);
  const found = new Map<string, Whereabouts>();
  const [main] = contexts;
  for (const note of (await main?.connections.session(notes)) ?? [])
    found.set(note.capsule, { ...note, on: [], missing: [] });
  for (const [index, { connections }] of contexts.entries()) {
    const server = servers.all[index]?.name ?? '';
    for (const { capsule, missing } of await connections.session(had)) {
      const before = found.get(capsule) ?? { capsule, noted: null, movingTo: null, on: [], missing: [] };
      found.set(capsule, {
        ...before,
        on: [...before.on, server],
        missing: [...before.missing, ...missing],
      });
    }
  }
  return [...found.values()];
}

export const WHEREABOUTS_COMMANDS: Readonly<Record<string, Command<Servers>>> = {
  whereabouts: {
    usage: 'whereabouts',
    about:
      'where each Capsule is said to be, which servers have it, and what they lack, one JSON object a line',
    run: async (servers, _traceId, args) => {
      if (args.length > 0) throw new UsageError('whereabouts takes no argument');
      return (await whereabouts(servers)).map((one) => JSON.stringify(one)).join('\n');
    },
  },
};
