import {
  digestOf,
  type Logger,
  Secret,
  type Served,
  type ServiceMetrics,
  type TokenDigest,
} from '@space/broker-kit';
import {
  capsuleAuthority,
  createControlApp,
  type Handlers,
  provisionerAuthority,
} from '@space/broker-kit/control';
import { toServiceError } from '@space/broker-kit/postgres';
import { DATABASE } from '@space/contracts/database';
import type { Config } from './config.ts';
import { type Context, ofCapsule } from './context.ts';
import { dropApp, dropCapsule, finalizeCapsule } from './operations/drop.ts';
import { setLimits } from './operations/limit.ts';
import { createApp, provisionCapsule } from './operations/provision.ts';
import { appUsage } from './operations/usage.ts';
import type { Servers } from './servers/router.ts';
import type { Usable } from './servers/server.ts';

/** Options of the control listener. */
export interface ControlOptions {
  readonly config: Config;
  readonly servers: Servers;
  /** The driver document. */
  readonly driver: Buffer;
  readonly provisioners: () => readonly TokenDigest[];
  readonly metrics: ServiceMetrics;
  readonly log: Logger;
  readonly failpoint?: ((name: string) => void) | undefined;
}

export function createControl(options: ControlOptions): Served {
  const { config, servers, driver, provisioners, metrics, log, failpoint } = options;
  return createControlApp({
    contract: DATABASE,
    handlers: handlers(servers),
    documents: { '/v1/driver': driver },
    authorities: {
      provisioner: provisionerAuthority(provisioners),
      capsule: capsuleAuthority((digest) => servers.findPrincipal(digest)),
    },
    limits: {
      caller: { perSecond: config.CAPSULE_REQUESTS_PER_SECOND, burst: config.CAPSULE_REQUESTS_BURST },
      refusals: { perSecond: config.REFUSALS_PER_SECOND, burst: config.REFUSALS_BURST },
    },
    log,
    metrics,
    translate: toServiceError,
    ...(failpoint === undefined ? {} : { failpoint }),
  });
}

/**
 * The operations of the contract: each translates its request, works on the server of its Capsule, and translates the
 * result.
 */
function handlers(servers: Servers): Handlers<typeof DATABASE> {
  const on = async <T>(capsule: string, work: (context: Context) => Promise<T>) =>
    within(await servers.of(capsule), capsule, work);
  return {
    'capsule.provision': async (call, { capsule_id: capsule, principal_token }) => {
      const principal = digestOf(new Secret(principal_token));
      const { url, created } = await within(await servers.place(capsule, principal), capsule, (context) =>
        provisionCapsule(context, call, capsule, principal),
      );
      return { database_url: url, created };
    },
    'capsule.finalize': async (call, { capsule_id: capsule }) => ({
      finalized: await on(capsule, (context) => finalizeCapsule(context, call, capsule)),
    }),
    'capsule.app.create': async (call, { capsule_id: capsule, app_id: app }) => {
      const { url, created } = await on(capsule, (context) => createApp(context, call, capsule, app));
      return { database_url: url, created };
    },
    'capsule.app.drop': async (call, { capsule_id: capsule, app_id: app }) => {
      const { name, alreadyAbsent } = await on(capsule, (context) => dropApp(context, call, capsule, app));
      return { dropped: name, ...(alreadyAbsent ? { already_absent: true as const } : {}) };
    },
    'capsule.drop': async (call, { capsule_id: capsule }) => ({
      dropped: await on(capsule, (context) => dropCapsule(context, call, capsule)),
    }),
    'capsule.limits': async (call, { capsule_id: capsule, database_bytes, connections }) => {
      const wanted = { databaseBytes: database_bytes ?? null, connections: connections ?? null };
      const limits = await on(capsule, (context) => setLimits(context, call, capsule, wanted));
      return {
        database_bytes: limits.databaseBytes,
        connections: limits.connections,
        used_bytes: limits.usedBytes,
        standing: limits.standing,
      };
    },
    'capsule.app.usage': async (call, { capsule_id: capsule, app_id: app }) => ({
      used_bytes: await on(capsule, (context) => appUsage(context, call, capsule, app)),
    }),
  };
}

/** Runs the work within the Capsule's share of the slots and connections of its server. */
async function within<T>(
  { context, mutations }: Usable,
  capsule: string,
  work: (context: Context) => Promise<T>,
): Promise<T> {
  const giveBack = await mutations.take(capsule);
  try {
    return await work(ofCapsule(context, capsule));
  } finally {
    giveBack();
  }
}
