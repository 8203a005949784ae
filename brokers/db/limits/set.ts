import { ServiceError } from '@space/broker-kit';
import type { Session } from '@space/broker-kit/postgres';
import { about, audit, type Call, lockCapsule } from '@space/broker-kit/principals';
import type { Context } from '../context.ts';
import type { Workload } from '../core/names.ts';
import { decideQuota, type Standing, standingOf } from '../core/quota.ts';
import { observeRegistered } from '../isolation/observe.ts';
import { connectionStatements, within } from '../isolation/statements.ts';
import { connectionsGranted, type Granted, type Limits, measure, readLimits, writeLimits } from './rows.ts';

/** The limits in force, and what the Capsule holds. */
export interface Standings {
  readonly databaseBytes: number;
  readonly connections: number;
  readonly usedBytes: number;
  readonly standing: Standing;
}

/** Says what a Capsule may have from now on, and tells what it has; again, with the same limits, it changes nothing. */
export function setLimits(context: Context, call: Call, capsule: string, wanted: Limits): Promise<Standings> {
  return context.connections.transaction(async (session) => {
    const known = await lockCapsule(session, capsule, 'UPDATE');
    const row = await readLimits(session, capsule);
    if (known === undefined || row === undefined) throw new ServiceError('not_found', 'no such Capsule');
    if (known.state !== 'active') throw new ServiceError('conflict', `the Capsule is ${known.state}`);
    const connections = wanted.connections ?? context.connectionLimit;
    const databaseBytes = wanted.databaseBytes ?? context.databaseBytes;
    const observed = await observeRegistered(session, capsule);
    const same = row.connections === wanted.connections && row.databaseBytes === wanted.databaseBytes;
    if (!same) {
      if (connections > (row.connections ?? context.connectionLimit))
        requireConnections(
          await connectionsGranted(session, capsule, context.connectionLimit),
          connections,
          0,
        );
      await writeLimits(session, capsule, wanted);
      const statements = observed.flatMap((one) =>
        connectionStatements(one, connections, row.door === 'tidying' ? 1 : connections),
      );
      if (statements.length > 0) await session.run('limit connections', within('cut', statements));
      await audit(session, { ...about(call, 'capsule.limits', 'provisioner'), capsule, outcome: 'limited' });
    }
    const sizes = await measure(
      session,
      observed.map(({ name }) => name),
    );
    const usedBytes = [...sizes.values()].reduce((sum, bytes) => sum + bytes, row.shared);
    // As the next look will have it, which moves the doors; a pause is not over for it.
    const { door } = decideQuota(row, usedBytes, databaseBytes, 0);
    return { databaseBytes, connections, usedBytes, standing: standingOf(door, usedBytes, databaseBytes) };
  });
}

/**
 * For a create: the connections that the new database may take. Refused while the Capsule holds more than it may, or
 * when all databases together could take more connections than the server has. Creates that run at the same time do not
 * see each other, so what is promised may exceed the server by as many as run at once.
 */
export async function requireRoom(
  context: Context,
  session: Session,
  { capsule, app }: Workload,
): Promise<number> {
  const [row, granted] = await Promise.all([
    readLimits(session, capsule),
    // The Capsule's own database, whose URL nobody is given, takes none.
    app === '' ? undefined : connectionsGranted(session, capsule, context.connectionLimit),
  ]);
  const connections = row?.connections ?? context.connectionLimit;
  if (granted === undefined) return connections;
  if (row !== undefined && row.door !== 'open')
    throw new ServiceError('quota_exceeded', 'the databases of the Capsule hold more than it may have');
  requireConnections(granted, connections, 1);
  return connections;
}

function requireConnections({ others, own, capacity }: Granted, connections: number, more: number): void {
  if (others + (own + more) * connections > capacity)
    throw new ServiceError('quota_exceeded', 'the server has no connections left to promise');
}
