/** Statements for the registry of the server that a Capsule leaves. */
import type { TokenDigest } from '@space/broker-kit';
import type { Session } from '@space/broker-kit/postgres';
import { expectOne } from '@space/broker-kit/principals';

/** What the source notes: `landing` from when the copy is taken for whole, `gone` once the other server has it. */
export interface Departure {
  /** Where to. */
  readonly server: string;
  /** Random, of one copy: a command that was begun before it does nothing any more. None where the move is being taken back. */
  readonly attempt: string;
  readonly state: 'copying' | 'landing' | 'gone';
}

/** For who has locked the place, or only looks. */
export async function findDeparture(session: Session, capsule: string): Promise<Departure | undefined> {
  const [row] = await session.read<Departure>(
    'find departure',
    'SELECT server, attempt, state FROM broker.departure WHERE capsule_id = $1',
    [capsule],
  );
  return row;
}

/**
 * Begins a copy, and ends those that were begun before here. Only the target ends one that is landing: until it has said so,
 * the Capsule may be there.
 */
export async function noteDeparture(
  session: Session,
  capsule: string,
  to: string,
  attempt: string,
): Promise<void> {
  await session.run(
    'note departure',
    `INSERT INTO broker.departure AS d (capsule_id, server, attempt, state) VALUES ($1, $2, $3, 'copying')
     ON CONFLICT (capsule_id) DO UPDATE SET server = $2, attempt = $3, changed_at = clock_timestamp(),
       state = CASE d.state WHEN 'landing' THEN 'landing' ELSE 'copying' END`,
    [capsule, to, attempt],
  );
}

/** Ends the copies of all attempts here: none is landed that was not landing already. */
export async function endDeparture(session: Session, capsule: string): Promise<void> {
  const rows = await session.run(
    'end departure',
    "UPDATE broker.departure SET attempt = '', changed_at = clock_timestamp() WHERE capsule_id = $1 RETURNING 1",
    [capsule],
  );
  expectOne(rows);
}

export const isEnded = ({ attempt, state }: Departure): boolean => attempt === '' && state !== 'gone';

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
