import {
  digestOf,
  Secret,
  type Served,
  type ServiceMetrics,
  type SharedSlots,
  type TokenDigest,
} from '@space/broker-kit';
import {
  capsuleAuthority,
  createControlApp,
  type Handlers,
  provisionerAuthority,
} from '@space/broker-kit/control';
import { toServiceError } from '@space/broker-kit/postgres';
import { findPrincipal } from '@space/broker-kit/principals';
import { DATABASE } from '@space/contracts/database';
import type { Config } from './config.ts';
import { type Context, ofCapsule } from './context.ts';
import { dropApp, dropCapsule, finalizeCapsule } from './operations/drop.ts';
import { setLimits } from './operations/limit.ts';
import { createApp, provisionCapsule } from './operations/provision.ts';
import { appUsage } from './operations/usage.ts';

/** What the control listener is made of. */
export interface ControlOptions {
  readonly config: Config;
  readonly context: Context;
  /** The driver document. */
  readonly driver: Buffer;
  readonly provisioners: () => readonly TokenDigest[];
  readonly mutations: SharedSlots;
  readonly metrics: ServiceMetrics;
}

export function createControl(options: ControlOptions): Served {
  const { config, context, driver, provisioners, mutations, metrics } = options;
  return createControlApp({
    contract: DATABASE,
    handlers: handlers(context),
    documents: { '/v1/driver': driver },
    authorities: {
      provisioner: provisionerAuthority(provisioners),
      capsule: capsuleAuthority((digest) => findPrincipal(context.connections.lookup, digest)),
    },
    limits: {
      caller: { perSecond: config.CAPSULE_REQUESTS_PER_SECOND, burst: config.CAPSULE_REQUESTS_BURST },
      refusals: { perSecond: config.REFUSALS_PER_SECOND, burst: config.REFUSALS_BURST },
    },
    mutations,
    log: context.log,
    metrics,
    translate: toServiceError,
    failpoint: context.failpoint,
  });
}

/** The contract's operations: from wire to work and back, each within the share of its Capsule. */
function handlers(context: Context): Handlers<typeof DATABASE> {
  const of = (capsule: string) => ofCapsule(context, capsule);
  return {
    'capsule.provision': async (call, { capsule_id, principal_token }) => {
      const principal = digestOf(new Secret(principal_token));
      const { url, created } = await provisionCapsule(of(capsule_id), call, capsule_id, principal);
      return { database_url: url, created };
    },
    'capsule.finalize': async (call, { capsule_id }) => ({
      finalized: await finalizeCapsule(of(capsule_id), call, capsule_id),
    }),
    'capsule.app.create': async (call, { capsule_id, app_id }) => {
      const { url, created } = await createApp(of(capsule_id), call, capsule_id, app_id);
      return { database_url: url, created };
    },
    'capsule.app.drop': async (call, { capsule_id, app_id }) => {
      const { name, alreadyAbsent } = await dropApp(of(capsule_id), call, capsule_id, app_id);
      return { dropped: name, ...(alreadyAbsent ? { already_absent: true as const } : {}) };
    },
    'capsule.drop': async (call, { capsule_id }) => ({
      dropped: await dropCapsule(of(capsule_id), call, capsule_id),
    }),
    'capsule.limits': async (call, { capsule_id, database_bytes, connections }) => {
      const wanted = { databaseBytes: database_bytes ?? null, connections: connections ?? null };
      const limits = await setLimits(of(capsule_id), call, capsule_id, wanted);
      return {
        database_bytes: limits.databaseBytes,
        connections: limits.connections,
        used_bytes: limits.usedBytes,
        standing: limits.standing,
      };
    },
    'capsule.app.usage': async (call, { capsule_id, app_id }) => ({
      used_bytes: await appUsage(of(capsule_id), call, capsule_id, app_id),
    }),
  };
}
