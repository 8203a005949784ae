import { type Logger, ServiceError, type TokenDigest } from '@space/broker-kit';
import { findPrincipal, type Principal } from '@space/broker-kit/principals';
import { askAll } from './ask.ts';
import { judgePrincipal } from './decide.ts';
import { createPlacer, requireUnused } from './place.ts';
import { findPlacement, isMoving, notePrincipal } from './placements.ts';
import { createRoutes, moving } from './routes.ts';
import { type DatabaseServer, requireUsable, type Usable } from './server.ts';

/** The servers of a broker, and where each Capsule and principal is. */
export interface Servers {
  /** The first is `main`. */
  readonly all: readonly [DatabaseServer, ...DatabaseServer[]];
  /** The Capsule that the principal is registered for. */
  findPrincipal(digest: TokenDigest): Promise<Principal | undefined>;
  /** The server of a Capsule; for an unknown Capsule `main`, which then reports it as unknown. */
  of(capsule: string): Promise<Usable>;
  /** The same for a Capsule that may be new: its server is chosen and noted first. */
  place(capsule: string, principal: TokenDigest): Promise<Usable>;
  /** Notes on behalf of all servers that the principal belongs to this Capsule. */
  claim(capsule: string, principal: TokenDigest): Promise<void>;
}

/** A single server, so that no request needs a look-up. */
export function oneServer(server: DatabaseServer): Servers {
  const use = async () => requireUsable(server);
  return {
    all: [server],
    findPrincipal: (digest) => findOn(requireUsable(server), digest),
    of: use,
    place: use,
    claim: async () => undefined,
  };
}

export function severalServers(all: Servers['all'], log: Logger): Servers {
  const [main] = all;
  const { whereIs, follow } = createRoutes(all, log);
  const place = createPlacer(all);
  return {
    all,
    findPrincipal: (digest) => findOnAll(all, digest),
    of: async (capsule) => follow(capsule, await whereIs(capsule))?.server ?? requireUsable(main),
    place: async (capsule, principal) => {
      const { context } = requireUsable(main);
      const noted = await findPlacement(context.connections.lookup, capsule, principal);
      const there = follow(capsule, noted);
      if (there !== undefined && noted.notedFor === capsule) return there.server;
      const arrival = { capsule, principal, own: there?.name };
      await requireUnused(all, arrival, noted);
      const placed = await place(arrival);
      context.failpoint('place:after-commit');
      return follow(capsule, { ...placed, onMain: false })?.server ?? requireUsable(main);
    },
    claim: async (capsule, principal) => {
      const { connections } = requireUsable(main).context;
      const whose = await connections.transaction((session) => notePrincipal(session, capsule, principal));
      if (whose !== capsule) throw new ServiceError('conflict', 'the principal is in use');
    },
  };
}

/**
 * The principal on all servers. @throws ServiceError if two servers know it; `unavailable` if a server does not answer
 * that may know it, or while the Capsule is being moved
 */
async function findOnAll(all: Servers['all'], digest: TokenDigest): Promise<Principal | undefined> {
  const answers = await askAll(
    all.map(async (server) => ({ principal: await findOn(requireUsable(server), digest) })),
    ({ principal }) => principal !== undefined,
  );
  const verdict = judgePrincipal(answers);
  if (verdict.kind === 'unanswered')
    throw new ServiceError('unavailable', 'a server that may know the principal does not answer', {
      retryAfter: 5,
    });
  if (verdict.kind === 'known') return verdict.principal;
  if (await isMoving(requireUsable(all[0]).context.connections.lookup, digest)) throw moving();
  return undefined;
}

function findOn({ context }: Usable, digest: TokenDigest): Promise<Principal | undefined> {
  return findPrincipal(context.connections.lookup, digest);
}
