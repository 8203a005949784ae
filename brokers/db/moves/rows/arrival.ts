/** Statements for the registry of the target server of a move. */
import type { Session } from '@space/broker-kit/postgres';
import { expectOne } from '@space/broker-kit/principals';

/** The target's note about a move. */
export interface Arrival {
  /** The source server. */
  readonly server: string;
  readonly attempt: string;
  /** Whether the rows are on the target and its databases are open; then only another move leads back. */
  readonly landed: boolean;
}

export async function findArrival(session: Session, capsule: string): Promise<Arrival | undefined> {
  const [row] = await session.read<Arrival>(
    'find arrival',
    'SELECT server, attempt, landed FROM broker.arrival WHERE capsule_id = $1 FOR UPDATE',
    [capsule],
  );
  return row;
}

/** Notes a new attempt, which ends all earlier ones; returns false if one of them has landed. */
export async function noteArrival(
  session: Session,
  capsule: string,
  { from, attempt, connections }: { from: string; attempt: string; connections: number },
): Promise<boolean> {
  const rows = await session.run(
    'note arrival',
    `INSERT INTO broker.arrival AS a (capsule_id, server, attempt, connections) VALUES ($1, $2, $3, $4)
     ON CONFLICT (capsule_id) DO UPDATE SET server = $2, attempt = $3, connections = $4, changed_at = clock_timestamp()
     WHERE NOT a.landed RETURNING 1`,
    [capsule, from, attempt, connections],
  );
  return rows.length === 1;
}

/** Ends all attempts; returns false if one of them has landed. */
export async function endArrival(session: Session, capsule: string): Promise<boolean> {
  const arrival = await findArrival(session, capsule);
  if (arrival?.landed) return false;
  await session.run(
    'end arrival',
    "UPDATE broker.arrival SET attempt = '', changed_at = clock_timestamp() WHERE capsule_id = $1",
    [capsule],
  );
  return true;
}

export async function markLanded(session: Session, capsule: string): Promise<void> {
  const rows = await session.run(
    'mark landed',
    'UPDATE broker.arrival SET landed = true, changed_at = clock_timestamp() WHERE capsule_id = $1 RETURNING 1',
    [capsule],
  );
  expectOne(rows);
}

export async function forgetArrival(session: Session, capsule: string): Promise<void> {
  await session.run('forget arrival', 'DELETE FROM broker.arrival WHERE capsule_id = $1', [capsule]);
}

export async function noteArriving(session: Session, capsule: string, name: string): Promise<void> {
  await session.run(
    'note arriving database',
    'INSERT INTO broker.arriving_database (name, capsule_id) VALUES ($1, $2)',
    [name, capsule],
  );
}

export async function forgetArriving(session: Session, name: string): Promise<void> {
  await session.run('forget arriving database', 'DELETE FROM broker.arriving_database WHERE name = $1', [
    name,
  ]);
}

export async function arrivingDatabases(session: Session, capsule: string): Promise<string[]> {
  const rows = await session.read<{ name: string }>(
    'list arriving databases',
    'SELECT name FROM broker.arriving_database WHERE capsule_id = $1 ORDER BY name',
    [capsule],
  );
  return rows.map(({ name }) => name);
}
