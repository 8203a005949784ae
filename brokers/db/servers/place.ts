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

/** A Capsule that is provisioned, on its server or on one that is still to be chosen. */
interface Arrival {
  readonly capsule: string;
  readonly principal: TokenDigest;
  /** The Capsule's server where it has one. */
  readonly own: string | undefined;
}

type All = readonly [DatabaseServer, ...DatabaseServer[]];

/**
 * A principal is one Capsule's for ever, over all servers. What was noted says so for all of them; what was registered
 * before anything was noted is only known to its server, which says so if it answers.
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
 * Chooses a server for a Capsule that has none and notes it, with its principal, in the first server's registry. What is
 * noted counts, whoever was first. Within this process one Capsule is placed after the other, so that each choice sees
 * the one before it.
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
    throw new ServiceError('quota_exceeded', 'no server has room for a new Capsule');
  throw new ServiceError('unavailable', 'no server that answers has room for a new Capsule', {
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
    // Of nobody in particular: what all databases of Assistants were promised.
    connectionsGranted(connections.lookup, '', connectionLimit),
  ]);
  return { capsules, room: hasConnections(granted, connectionLimit, 1) };
}

function inUse(): ServiceError {
  return new ServiceError('conflict', 'the principal is in use');
}
