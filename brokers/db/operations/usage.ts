import { ServiceError } from '@space/broker-kit';
import { authorisedCapsule, type Call } from '@space/broker-kit/principals';
import type { Context } from '../context.ts';
import { measure } from '../limits/rows.ts';
import { lockDatabase } from '../registry/rows.ts';

/**
 * Bytes on disk of one workload's database, measured without a lock, so that nobody waits for a database with many
 * files.
 */
export async function appUsage(context: Context, call: Call, capsule: string, app: string): Promise<number> {
  const name = await context.connections.transaction(async (session) => {
    await authorisedCapsule(session, call, capsule, 'apps');
    const row = await lockDatabase(session, { capsule, app });
    if (row?.state !== 'ready') throw new ServiceError('not_found', 'no such database');
    return row.name;
  });
  const sizes = await context.connections.session((session) => measure(session, [name]));
  return sizes.get(name) ?? 0;
}
