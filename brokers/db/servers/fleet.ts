import { ConfigError, type Logger, type Resources } from '@space/broker-kit';
import type { Config } from '../config.ts';
import { type Common, type OpenServer, openCommon, openServer } from '../open.ts';
import { MAIN, readServerPlans, type ServerPlan, type ServerPlans } from './config.ts';
import { type FurtherServer, furtherServer } from './further.ts';
import { type Identity, requireDifferent, systemIdOf } from './identity.ts';
import {
  capsulesOn,
  departuresFrom,
  noteDeparturesOf,
  notePlacementsOf,
  placementsByServer,
} from './placements.ts';
import { startPulse } from './pulse.ts';
import { oneServer, type Servers, severalServers } from './router.ts';
import { type DatabaseServer, isReady } from './server.ts';

/** Everything that a broker has opened. */
export interface Fleet extends Pick<Common, 'metrics'> {
  readonly servers: Servers;
  readonly main: OpenServer;
  /** Stops the work with further servers. */
  stop(): Promise<void>;
}

interface FleetOptions {
  readonly config: Config;
  readonly log: Logger;
  readonly resources: Resources;
  readonly failpoint?: ((name: string) => void) | undefined;
  /** Begins the work on a further server once it is open. */
  readonly begin?: (name: string, server: OpenServer, common: Common, resources: Resources) => Promise<void>;
}

/** Milliseconds for which the start waits for further servers; after that they are opened while the others are used. */
const FIRST_MS = 15_000;

/** Opens `main`, which the start requires, and begins to open the others. */
export async function openFleet(options: FleetOptions): Promise<Fleet> {
  const { config, log, resources, failpoint } = options;
  const plans = readServerPlans(config);
  const several = plans.further.length > 0;
  const common = await openCommon(config, log, resources, { several, failpoint });
  const mainLog = several ? log.child({ server: MAIN }) : log;
  const main = await openServer(common, plans.main, { log: mainLog, resources });
  await requireConfigured(main, plans);
  const { metrics } = common;
  if (!several) {
    const only = { ...shareOf(plans.main), state: () => READY, opened: () => main };
    return { servers: oneServer(only), main, metrics, stop: async () => undefined };
  }
  const further = await openFurther(options, common, plans.further, main);
  const all: Servers['all'] = [followed(plans.main, main, resources), ...further];
  common.serverMetrics.watchServers(() => all.map((server) => [server.name, isReady(server)] as const));
  const stop = async () => {
    await Promise.all(further.map((server) => server.stop()));
  };
  return { servers: severalServers(all, log), main, metrics, stop };
}

const READY = { kind: 'ready' } as const;

const shareOf = ({ name, weight, drain }: ServerPlan) => ({ name, weight, drain });

/** The first server, which is regularly asked whether it answers. */
function followed(plan: ServerPlan, server: OpenServer, resources: Resources): DatabaseServer {
  const pulse = startPulse(() => server.context.connections.lookup.read('ask server', 'SELECT 1'));
  resources.closers.push(() => pulse.stop());
  const silent = { kind: 'unreachable', why: 'it does not answer' } as const;
  return {
    ...shareOf(plan),
    state: () => (pulse.answers() ? READY : silent),
    opened: () => server,
  };
}

async function openFurther(
  { log, resources, begin }: FleetOptions,
  common: Common,
  plans: readonly ServerPlan[],
  main: OpenServer,
): Promise<FurtherServer[]> {
  const identities = new Map<string, Identity>();
  const identify = async (name: string, { context, installation }: OpenServer) => {
    const identity = { name, installation, system: await context.connections.session(systemIdOf) };
    requireDifferent(identity, identities.values());
    identities.set(name, identity);
  };
  await identify(MAIN, main);
  const further = plans.map((plan) => {
    const serverLog = log.child({ server: plan.name });
    return furtherServer({
      plan,
      log: serverLog,
      onOpen: (files) => resources.files.push(...files),
      open: async (own) => {
        const server = await openServer(common, plan, { log: serverLog, resources: own }, reachOnce);
        await identify(plan.name, server);
        await noteUnplaced(plan.name, server, main);
        await begin?.(plan.name, server, common, own);
        return server;
      },
    });
  });
  for (const server of further) resources.closers.push(() => server.stop());
  await atMost(FIRST_MS, Promise.all(further.map(({ tried }) => tried)));
  return further;
}

const reachOnce: Parameters<typeof openServer>[3] = async (connections) => {
  await connections.session((session) => session.read('reach server', 'SELECT 1'));
};

/** @throws if a server with Capsules is missing from the configuration, since they would be created again elsewhere */
async function requireConfigured({ context }: OpenServer, plans: ServerPlans): Promise<void> {
  const configured = new Set([plans.main, ...plans.further].map(({ name }) => name));
  const noted = await context.connections.session(placementsByServer);
  const missing = noted.filter(({ server }) => !configured.has(server));
  if (missing.length === 0) return;
  const named = missing.map(({ server, capsules }) => `${server} (${capsules} Capsules)`).join(', ');
  throw new ConfigError(`SERVERS_FILE: servers that Capsules are on are missing: ${named}`);
}

/**
 * Notes Capsules on this server that the first server's registry does not know, or that have moved from it, as after a
 * restore of that registry alone.
 */
async function noteUnplaced(name: string, server: OpenServer, main: OpenServer): Promise<void> {
  const capsules = await server.context.connections.session(capsulesOn);
  const left = await server.context.connections.session(departuresFrom);
  const added = await main.context.connections.transaction(async (session) => {
    const moved = await noteDeparturesOf(session, name, left);
    return moved + (await notePlacementsOf(session, name, capsules));
  });
  if (added > 0)
    server.context.log.warn(
      { capsules: added },
      'Capsules of this server had no placement, or were moved from it',
    );
}

/** Waits for the work, but at most this many milliseconds. */
async function atMost(ms: number, work: Promise<unknown>): Promise<void> {
  const { promise: over, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, ms);
  try {
    await Promise.race([work, over]);
  } finally {
    clearTimeout(timer);
  }
}
