import { type Logger, RecentMap, ServiceError } from '@space/broker-kit';
import { StepError } from '@space/broker-kit/postgres';
import { decideRoute, type Placed, type Route } from './decide.ts';
import { findPlacement, hasLeft } from './placements.ts';
import { type DatabaseServer, requireUsable, type Usable } from './server.ts';

/** Which of several servers has a Capsule. */
export interface Routes {
  /** What is noted about a Capsule; while the first server does not answer, the last known note. */
  whereIs(capsule: string): Promise<Placed>;
  /** The noted server, which must be ready; undefined for an unknown Capsule. */
  follow(capsule: string, placed: Placed): { readonly name: string; readonly server: Usable } | undefined;
}

const MOVING_SECONDS = 10;
const NOT_CONFIGURED_SECONDS = 60;
/** More Capsules than a Space has; those of long ago are gone. */
const MOST_FOUND = 10_000;

export const moving = (): ServiceError =>
  new ServiceError('unavailable', 'the Capsule is being moved', { retryAfter: MOVING_SECONDS });

export function createRoutes(all: readonly [DatabaseServer, ...DatabaseServer[]], log: Logger): Routes {
  const [main] = all;
  const byName = new Map(all.map((server) => [server.name, server]));
  const configured = new Set(byName.keys());
  /** Where Capsules were found. Only positive results are cached. */
  const found = new RecentMap<string, string>(MOST_FOUND);
  const missing = new Set<string>();

  function requireConfigured(route: Extract<Route, { name: string }>): DatabaseServer {
    const server = byName.get(route.name);
    if (server !== undefined) return server;
    if (!missing.has(route.name)) {
      missing.add(route.name);
      log.error({ missing: route.name }, 'Capsules are on a server that SERVERS_FILE does not name');
    }
    throw new ServiceError('unavailable', `the Capsule's server ${route.name} is not configured`, {
      retryAfter: NOT_CONFIGURED_SECONDS,
    });
  }

  return {
    whereIs: async (capsule) => {
      try {
        return await findPlacement(requireUsable(main).context.connections.lookup, capsule);
      } catch (error) {
        const before = found.get(capsule);
        if (before === undefined || !(error instanceof ServiceError || error instanceof StepError))
          throw error;
        const server = byName.get(before);
        // If the Capsule was moved since, its previous server reports that permanently.
        if (
          server !== undefined &&
          (await hasLeft(requireUsable(server).context.connections.lookup, capsule))
        )
          throw moving();
        return { server: before, movingTo: null, onMain: false };
      }
    },
    follow: (capsule, placed) => {
      const route = decideRoute(placed, main.name, configured);
      if (route.kind === 'unplaced') return undefined;
      if (route.kind === 'moving') {
        found.delete(capsule);
        throw moving();
      }
      const server = requireConfigured(route);
      found.set(capsule, route.name);
      return { name: route.name, server: requireUsable(server) };
    },
  };
}
