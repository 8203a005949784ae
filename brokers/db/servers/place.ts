import { ServiceError, type TokenDigest } from '@space/broker-kit';
import { hasConnections } from '../limits/capacity.ts';
import { connectionsGranted } from '../limits/rows.ts';
import { askAll } from './ask.ts';
import { type Candidate, chooseServer } from './decide.ts';
import {
  countCapsules,
  hasPrincipal,
  latestPlacements,
  type Noted,
  notePlacement,
  notePrincipal,
} from './placements.ts';
import { type DatabaseServer, requireUsable } from './server.ts';

/** A Capsule to provision, on its server or on one that is still to be chosen. */
interface Arrival {
  readonly capsule: string;
  readonly principal: TokenDigest;
  /** The Capsule's server, if it has one. */
  readonly own: string | undefined;
}

type All = readonly [DatabaseServer, ...DatabaseServer[]];

/**
 * Refuses a principal of another Capsule; a principal belongs to one Capsule for good, on all servers. The notes cover
 * all servers; a principal that was registered before there were notes is known only to its server, if that answers.
 */
export async function requireUnused(
  [main, ...further]: All,
  { principal, own }: Arrival,
  noted: Noted,
): Promise<void> {
  if (noted.usedHere && own !== main.name) throw inUse();
  const answers = await askAll(
    further
      .filter((server) => server.name !== own)
      .map(async (server) => ({
        used: await hasPrincipal(requireUsable(server).context.connections.lookup, principal),
      })),
    ({ used }) => used,
  );
  if (answers.some((answer) => answer?.used)) throw inUse();
}

/**
 * Chooses a server for a new Capsule and notes it, with the principal, in the first server's registry. The first note
 * counts. In this process Capsules are placed one after the other, so that each choice takes the previous one into
 * account.
 */
export function createPlacer(all: All): (arrival: Arrival) => ReturnType<typeof note> {
  let last: Promise<unknown> = Promise.resolve();
  return (arrival) => {
    if (arrival.own !== undefined) return note(all, arrival, arrival.own);
    const placed = last.then(async () => note(all, arrival, await choose(all)));
    last = placed.catch(() => undefined);
    return placed;
  };
}

function note([main]: All, { capsule, principal }: Arrival, server: string) {
  return requireUsable(main).context.connections.transaction(async (session) => {
    const placed = await notePlacement(session, capsule, server);
    if ((await notePrincipal(session, capsule, principal)) !== capsule) throw inUse();
    return placed;
  });
}

async function choose(all: All): Promise<string> {
  const [main] = all;
  const latest = await latestPlacements(requireUsable(main).context.connections.lookup);
  const loads = await askAll(
    all.map((server) => {
      const coming = latest.filter((one) => one.server === server.name).map(({ capsule }) => capsule);
      return loadOf(server, coming);
    }),
    () => false,
  );
  const choice = chooseServer(
    all.map(({ name, weight, drain }, index) => ({ name, weight, drain, load: loads[index] })),
  );
  if (choice.kind === 'server') return choice.name;
  if (choice.kind === 'full')
    throw new ServiceError('quota_exceeded', 'no server has capacity for a new Capsule');
  throw new ServiceError('unavailable', 'no server that answers has capacity for a new Capsule', {
    retryAfter: 5,
  });
}

async function loadOf(
  server: DatabaseServer,
  coming: readonly string[],
): Promise<NonNullable<Candidate['load']>> {
  const { connections, connectionLimit } = requireUsable(server).context;
  const [capsules, granted] = await Promise.all([
    countCapsules(connections.lookup, coming),
    // The connections granted to all databases of Assistants; the empty name is no Capsule's.
    connectionsGranted(connections.lookup, '', connectionLimit),
  ]);
  return { capsules, room: hasConnections(granted, connectionLimit, 1) };
}

function inUse(): ServiceError {
  return new ServiceError('conflict', 'the principal is in use');
}
