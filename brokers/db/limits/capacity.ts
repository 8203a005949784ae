import { ServiceError } from '@space/broker-kit';
import type { Session } from '@space/broker-kit/postgres';
import type { Context } from '../context.ts';
import type { Workload } from '../core/names.ts';
import { connectionsGranted, type Granted, readLimits } from './rows.ts';

/**
 * Returns the connections that a new database may use. It is refused if the Capsule exceeds its size quota, or
 * if all databases together could use more connections than the server has. Concurrent creates do not
 * see each other, so the sum may exceed the server by as many as run at once.
 */
export async function requireCapacity(
  context: Context,
  session: Session,
  { capsule, app }: Workload,
): Promise<number> {
  const [row, granted] = await Promise.all([
    readLimits(session, capsule),
    // Nobody gets the URL of the Capsule's own database, so it needs no connections.
    app === '' ? undefined : connectionsGranted(session, capsule, context.connectionLimit),
  ]);
  const connections = row?.connections ?? context.connectionLimit;
  if (granted === undefined) return connections;
  if (row !== undefined && row.door !== 'open')
    throw new ServiceError('quota_exceeded', 'the databases of the Capsule exceed its quota');
  requireConnections(granted, connections, 1, context.connectionLimit);
  return connections;
}

/**
 * The share of all Assistants' connections that one Capsule may have, so that only several Capsules can use all of
 * them.
 */
const SHARE = 0.75;

/** Whether the server has enough connections for this many more databases of the Capsule. */
export function hasConnections(
  { others, own, capacity }: Granted,
  connections: number,
  more: number,
): boolean {
  return others + (own + more) * connections <= capacity;
}

export function requireConnections(granted: Granted, connections: number, more: number, usual: number): void {
  if (!hasConnections(granted, connections, more))
    throw new ServiceError('quota_exceeded', 'the server has no connections left to promise');
  const { own, capacity } = granted;
  const wanted = (own + more) * connections;
  // On a very small server, one Assistant is admitted even so.
  if (wanted > Math.max(capacity * SHARE, usual))
    throw new ServiceError('quota_exceeded', 'the Capsule has used its share of the connections');
}
