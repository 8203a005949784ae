import { digestOf, Secret } from '@space/broker-kit';
import type { Handlers } from '@space/broker-kit/control';
import type { DATABASE } from '@space/contracts/database';
import { setLimits } from './limits/set.ts';
import type { Context } from './operations/context.ts';
import { dropApp, dropCapsule, finalizeCapsule } from './operations/drop.ts';
import { createApp, provisionCapsule } from './operations/provision.ts';

/** The contract's operations: from wire to work and back. */
export function handlers(context: Context): Handlers<typeof DATABASE> {
  return {
    'capsule.provision': async (call, { capsule_id, principal_token }) => {
      const principal = digestOf(new Secret(principal_token));
      const { url, created } = await provisionCapsule(context, call, capsule_id, principal);
      return { database_url: url, created };
    },
    'capsule.finalize': async (call, { capsule_id }) => ({
      finalized: await finalizeCapsule(context, call, capsule_id),
    }),
    'capsule.app.create': async (call, { capsule_id, app_id }) => {
      const { url, created } = await createApp(context, call, capsule_id, app_id);
      return { database_url: url, created };
    },
    'capsule.app.drop': async (call, { capsule_id, app_id }) => {
      const { name, alreadyAbsent } = await dropApp(context, call, capsule_id, app_id);
      return { dropped: name, ...(alreadyAbsent ? { already_absent: true as const } : {}) };
    },
    'capsule.drop': async (call, { capsule_id }) => ({
      dropped: await dropCapsule(context, call, capsule_id),
    }),
    'capsule.limits': async (call, { capsule_id, database_bytes, connections }) => {
      const wanted = { databaseBytes: database_bytes ?? null, connections: connections ?? null };
      const limits = await setLimits(context, call, capsule_id, wanted);
      return {
        database_bytes: limits.databaseBytes,
        connections: limits.connections,
        used_bytes: limits.usedBytes,
        standing: limits.standing,
      };
    },
  };
}
