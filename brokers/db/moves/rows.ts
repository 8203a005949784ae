import type { TokenDigest } from '@space/broker-kit';
import type { Session } from '@space/broker-kit/postgres';
import { expectOne } from '@space/broker-kit/principals';

/** Every statement about moves, by the registry that it is for. */

/** What the source notes: `landing` from when the copy is taken for whole, `gone` once the other server has it. */
export interface Departure {
  /** Where to. */
  readonly server: string;
  /** Random, of one copy: a command that was begun before it does nothing any more. */
  readonly attempt: string;
  readonly state: 'copying' | 'landing' | 'gone';
}

/** What the target notes. */
export interface Arrival {
  /** Where from. */
  readonly server: string;
  readonly attempt: string;
  /** The rows are here, and its databases are open: there is no way back but another move. */
  readonly landed: boolean;
}

/** The lock of whoever registers a Capsule here, which has no row yet; see the trigger `placed_here`. */
export async function lockPlace(session: Session, capsule: string): Promise<void> {
  await session.run('lock placement', 'SELECT pg_advisory_xact_lock(hashtextextended($1, 7305181003))', [
    capsule,
  ]);
}

/* The first server. */

/** Notes where a Capsule is being moved to; false where it is no longer on the source, or is being moved elsewhere. */
export async function noteMoving(
  session: Session,
  capsule: string,
  from: string,
  to: string,
): Promise<boolean> {
  await lockPlace(session, capsule);
  const rows = await session.run(
    'note move',
    `INSERT INTO broker.placement AS p (capsule_id, server, moving_to) VALUES ($1, $2, $3)
     ON CONFLICT (capsule_id) DO UPDATE SET moving_to = $3
     WHERE p.server = $2 AND coalesce(p.moving_to, $3) = $3 RETURNING 1`,
    [capsule, from, to],
  );
  return rows.length === 1;
}

/** Nobody is to be told that a principal of a Capsule that moves is unknown, though no server may know it for a moment. */
export async function notePrincipals(
  session: Session,
  capsule: string,
  principals: readonly TokenDigest[],
): Promise<void> {
  await session.run(
    'note principals',
    `INSERT INTO broker.placed_principal (principal, capsule_id) SELECT p, $1 FROM unnest($2::bytea[]) p
     ON CONFLICT (principal) DO NOTHING`,
    [capsule, principals],
  );
}

/** Notes that it is on the target. */
export async function noteMoved(session: Session, capsule: string, to: string): Promise<void> {
  await lockPlace(session, capsule);
  await session.run(
    'note moved',
    `UPDATE broker.placement SET server = $2, moving_to = NULL, changed_at = clock_timestamp()
     WHERE capsule_id = $1 AND moving_to = $2`,
    [capsule, to],
  );
}

/** Notes that it stays where it is. */
export async function noteStays(session: Session, capsule: string, to: string): Promise<void> {
  await lockPlace(session, capsule);
  await session.run(
    'note stay',
    'UPDATE broker.placement SET moving_to = NULL WHERE capsule_id = $1 AND moving_to = $2',
    [capsule, to],
  );
}

/* The source. */

/** For who has locked the place, or only looks. */
export async function findDeparture(session: Session, capsule: string): Promise<Departure | undefined> {
  const [row] = await session.read<Departure>(
    'find departure',
    'SELECT server, attempt, state FROM broker.departure WHERE capsule_id = $1',
    [capsule],
  );
  return row;
}

/** Begins a copy, and ends those that were begun before. */
export async function noteDeparture(
  session: Session,
  capsule: string,
  to: string,
  attempt: string,
): Promise<void> {
  await session.run(
    'note departure',
    `INSERT INTO broker.departure (capsule_id, server, attempt, state) VALUES ($1, $2, $3, 'copying')
     ON CONFLICT (capsule_id) DO UPDATE SET server = $2, attempt = $3, state = 'copying', changed_at = clock_timestamp()`,
    [capsule, to, attempt],
  );
}

export async function advanceDeparture(
  session: Session,
  capsule: string,
  state: Departure['state'],
): Promise<void> {
  const rows = await session.run(
    `departure ${state}`,
    'UPDATE broker.departure SET state = $2, changed_at = clock_timestamp() WHERE capsule_id = $1 RETURNING 1',
    [capsule, state],
  );
  expectOne(rows);
}

export async function forgetDeparture(session: Session, capsule: string): Promise<void> {
  await session.run('forget departure', 'DELETE FROM broker.departure WHERE capsule_id = $1', [capsule]);
}

/** All digests that are, or were, this Capsule's principal. */
export async function principalsOf(session: Session, capsule: string): Promise<TokenDigest[]> {
  const rows = await session.read<{ principal: TokenDigest }>(
    'list principals',
    `SELECT principal FROM broker.capsule WHERE capsule_id = $1 AND principal IS NOT NULL
     UNION SELECT principal FROM broker.retired_principal WHERE capsule_id = $1`,
    [capsule],
  );
  return rows.map(({ principal }) => principal);
}

/** The tables with rows about one Capsule that go along, each as JSON that nobody here looks into. The audit stays where it was written. */
const TABLES = ['capsule', 'database', 'capsule_limits', 'retired_principal'] as const;
export type Baggage = Readonly<Record<(typeof TABLES)[number], string>>;

export async function packRows(session: Session, capsule: string): Promise<Baggage> {
  const columns = TABLES.map(
    (table) =>
      `(SELECT coalesce(jsonb_agg(to_jsonb(t)), '[]')::text FROM broker.${table} t WHERE capsule_id = $1) AS ${table}`,
  );
  const [row] = await session.read<Baggage>('pack rows', `SELECT ${columns.join(', ')}`, [capsule]);
  if (row === undefined) throw new Error('an aggregate without a row');
  return row;
}

/**
 * Leaves of a Capsule what proves that its databases are to be dropped. Its principal is nobody's here from now on; a
 * digest that was retired stays so.
 */
export async function leaveRest(session: Session, capsule: string): Promise<void> {
  await session.run(
    'leave databases',
    `UPDATE broker.database SET state = 'dropping', changed_at = clock_timestamp()
     WHERE capsule_id = $1 AND state = 'ready'`,
    [capsule],
  );
  await session.run('leave limits', 'DELETE FROM broker.capsule_limits WHERE capsule_id = $1', [capsule]);
  await session.run(
    'leave capsule',
    `UPDATE broker.capsule SET state = 'finalized', principal = NULL, changed_at = clock_timestamp()
     WHERE capsule_id = $1`,
    [capsule],
  );
}

/** Databases of a Capsule that has left which are not dropped yet; undefined where nothing of it is left. */
export async function findRest(
  session: Session,
  capsule: string,
): Promise<readonly { readonly app: string; readonly name: string }[] | undefined> {
  const [row] = await session.read<{ left: boolean; databases: { app: string; name: string }[] }>(
    'find rest',
    `SELECT EXISTS (SELECT FROM broker.capsule WHERE capsule_id = $1) AS left,
       (SELECT coalesce(json_agg(json_build_object('app', app_id, 'name', name) ORDER BY app_id), '[]')
        FROM broker.database WHERE capsule_id = $1 AND state = 'dropping') AS databases
     FROM broker.departure WHERE capsule_id = $1 AND state = 'gone'`,
    [capsule],
  );
  return row?.left ? row.databases : undefined;
}

/** Forgets the rows of a Capsule that has left, whose databases are dropped. */
export async function forgetRest(session: Session, capsule: string): Promise<void> {
  await session.run(
    'forget tombstones',
    `DELETE FROM broker.database d USING broker.departure x
     WHERE d.capsule_id = $1 AND d.state = 'dropped' AND x.capsule_id = $1 AND x.state = 'gone'`,
    [capsule],
  );
  await session.run(
    'forget capsule',
    `DELETE FROM broker.capsule c USING broker.departure x
     WHERE c.capsule_id = $1 AND x.capsule_id = $1 AND x.state = 'gone'
       AND NOT EXISTS (SELECT FROM broker.database d WHERE d.capsule_id = $1)`,
    [capsule],
  );
}

/* The target. */

export async function findArrival(session: Session, capsule: string): Promise<Arrival | undefined> {
  const [row] = await session.read<Arrival>(
    'find arrival',
    'SELECT server, attempt, landed FROM broker.arrival WHERE capsule_id = $1 FOR UPDATE',
    [capsule],
  );
  return row;
}

/** Makes room for a copy, and ends those that were begun before; false where one has landed. */
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

/** Ends the copies of all attempts; false where one has landed. */
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

/** Registers what came from another server; its databases are registered ones from now on. */
export async function unpackRows(session: Session, capsule: string, baggage: Baggage): Promise<void> {
  for (const table of TABLES)
    await session.run(
      `unpack ${table}`,
      `INSERT INTO broker.${table} SELECT * FROM jsonb_populate_recordset(NULL::broker.${table}, $1::jsonb)
       ${table === 'retired_principal' ? 'ON CONFLICT DO NOTHING' : ''}`,
      [baggage[table]],
    );
  await session.run(
    'forget arriving databases',
    'DELETE FROM broker.arriving_database WHERE capsule_id = $1',
    [capsule],
  );
}
