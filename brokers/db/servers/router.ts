import { type Logger, ServiceError, type TokenDigest } from '@space/broker-kit';
import { findPrincipal, type Principal } from '@space/broker-kit/principals';
import { askAll } from './ask.ts';
import { judgePrincipal } from './decide.ts';
import { createPlacer, requireUnused } from './place.ts';
import { findPlacement, isMoving, notePrincipal } from './placements.ts';
import { createRoutes, moving } from './routes.ts';
import { type DatabaseServer, requireUsable, type Usable } from './server.ts';

/** The servers of a broker, and which of them has what. */
export interface Servers {
  /** The first is `main`. */
  readonly all: readonly [DatabaseServer, ...DatabaseServer[]];
  /** The Capsule that a principal is registered for. */
  findPrincipal(digest: TokenDigest): Promise<Principal | undefined>;
  /** The server of a Capsule; `main` for one that nobody knows, which then says so. */
  of(capsule: string): Promise<Usable>;
  /** The same for a Capsule that may be new, whose server is then chosen and noted first. */
  place(capsule: string, principal: TokenDigest): Promise<Usable>;
  /** Notes that the principal is this Capsule's, over all servers. */
  claim(capsule: string, principal: TokenDigest): Promise<void>;
}

/** Nothing is looked up for a request: there is only one server where its Capsule can be. */
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
 * Fails closed: refused where two servers know it, and `unavailable` where one that does not answer may know it, or its
 * Capsule is on its way from one to another.
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
