import {
  digestOf,
  Secret,
  type Served,
  ServiceError,
  type ServiceMetrics,
  SharedSlots,
  type TokenDigest,
} from '@space/broker-kit';
import {
  capsuleAuthority,
  createControlApp,
  type Handlers,
  provisionerAuthority,
} from '@space/broker-kit/control';
import { toServiceError } from '@space/broker-kit/postgres';
import { OBJECT_STORE } from '@space/contracts/objectstore';
import { credentialHandlers } from './byok/credentials/operations.ts';
import { MOST_TRIALS } from './byok/credentials/trials.ts';
import type { Config } from './config.ts';
import type { Context } from './context.ts';
import type { Driver } from './driver.ts';
import { dropCapsule, dropWorkload, finalizeCapsule } from './principals/drop.ts';
import { createWorkload, provisionCapsule } from './principals/provision.ts';
import { lockWorkload, storeOf } from './principals/rows.ts';
import { usageOf } from './quota/rows.ts';

/**
 * The slots of mutations. Verifications wait for servers of others and have their own limit, so as many slots are added
 * for them.
 */
const MUTATIONS = { total: 32 + MOST_TRIALS, perKey: 48, queued: 256, waitMs: 60_000 };

/** Options of the control listener. */
export interface ControlOptions {
  readonly config: Config;
  readonly context: Context;
  readonly driver: Driver;
  readonly provisioners: () => readonly TokenDigest[];
  readonly metrics: ServiceMetrics;
}

export function createControl({ config, context, driver, provisioners, metrics }: ControlOptions): Served {
  return createControlApp({
    contract: OBJECT_STORE,
    handlers: handlers(context),
    documents: { '/v1/driver': driver.contract, '/v1/driver/credentials': driver.credentials },
    authorities: {
      provisioner: provisionerAuthority(provisioners),
      capsule: capsuleAuthority(context.capsules.find),
    },
    limits: {
      caller: { perSecond: config.CAPSULE_REQUESTS_PER_SECOND, burst: config.CAPSULE_REQUESTS_BURST },
      refusals: { perSecond: config.REFUSALS_PER_SECOND, burst: config.REFUSALS_BURST },
    },
    mutations: new SharedSlots(MUTATIONS),
    log: context.log,
    metrics,
    translate: toServiceError,
    failpoint: context.failpoint,
  });
}

/** The operations of the contract: each translates its request, does the work, and translates the result. */
function handlers(context: Context): Handlers<typeof OBJECT_STORE> {
  return current(context, {
    ...credentialHandlers(context),
    'capsule.provision': async (call, { capsule_id: capsule, principal_token, quota_bytes: quotaBytes }) => {
      const principal = digestOf(new Secret(principal_token));
      return { created: await provisionCapsule(context, call, { capsule, principal, quotaBytes }) };
    },
    'capsule.finalize': async (call, { capsule_id }) => ({
      finalized: await finalizeCapsule(context, call, capsule_id),
    }),
    'capsule.app.create': async (call, { capsule_id, app_id, principal_token }) => {
      const principal = digestOf(new Secret(principal_token));
      const workload = { capsule: capsule_id, app: app_id };
      return { created: await createWorkload(context, call, workload, principal) };
    },
    'capsule.app.drop': async (call, { capsule_id, app_id }) => {
      const { alreadyAbsent } = await dropWorkload(context, call, { capsule: capsule_id, app: app_id });
      return { dropped: app_id, ...(alreadyAbsent ? { already_absent: true as const } : {}) };
    },
    'capsule.drop': async (call, { capsule_id }) => ({
      dropped: await dropCapsule(context, call, capsule_id),
    }),
    'capsule.usage': (call, { capsule_id }) =>
      context.connections.transaction(async (session) => {
        const { prefix } = await context.capsules.authorise(session, call, capsule_id, 'apps');
        const { quotaBytes } = await storeOf(session, capsule_id);
        return usageOf(session, prefix, quotaBytes ?? context.defaultQuotaBytes);
      }),
    'capsule.app.usage': async (call, { capsule_id, app_id }) => {
      const prefix = await context.connections.transaction(async (session) => {
        await context.capsules.authorise(session, call, capsule_id, 'apps');
        const row = await lockWorkload(session, { capsule: capsule_id, app: app_id });
        if (row?.state === 'ready') return row.prefix;
        throw new ServiceError('not_found', 'no such workload');
      });
      const bytes = await context.appSizes(prefix);
      return bytes === undefined ? {} : { used_bytes: bytes };
    },
  });
}

/** Refuses every operation while the registry is one that was set back, since ended principals would be valid again. */
function current<All extends Readonly<Record<string, (...args: never[]) => Promise<unknown>>>>(
  { epochs }: Context,
  all: All,
): All {
  const guarded = Object.entries(all).map(([name, handler]) => [
    name,
    async (...args: never[]) => {
      await epochs.expectCurrent();
      return handler(...args);
    },
  ]);
  return Object.fromEntries(guarded) as All;
}
