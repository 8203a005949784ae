/** Statements for the registry of the source server of a move. */
import type { TokenDigest } from '@space/broker-kit';
import type { Session } from '@space/broker-kit/postgres';
import { expectOne } from '@space/broker-kit/principals';

/**
 * The source's note about a move: `landing` once the copy counts as complete, `gone` once the target has the Capsule.
 */
export interface Departure {
  /** The target server. */
  readonly server: string;
  /**
   * Identifies one copy at random: commands of an earlier attempt no longer have an effect. Empty while the move is
   * being reverted.
   */
  readonly attempt: string;
  readonly state: 'copying' | 'landing' | 'gone';
}

/** For callers who have locked the place or only read. */
export async function findDeparture(session: Session, capsule: string): Promise<Departure | undefined> {
  const [row] = await session.read<Departure>(
    'find departure',
    'SELECT server, attempt, state FROM broker.departure WHERE capsule_id = $1',
    [capsule],
  );
  return row;
}

/**
 * Notes a new attempt, which ends all earlier ones. An attempt that is landing can be ended only by the target: until
 * the target has answered, the Capsule may be there.
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

/** Ends all attempts here: none begins to land after this. */
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

/** All digests that are or were the Capsule's principal. */
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
 * Keeps of a Capsule only what proves that its databases must be dropped. Its principal is unknown on this server from
 * now on; retired digests stay retired.
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

/** Databases of a Capsule that has left and that are not dropped yet; undefined if nothing of it is left. */
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

/** Deletes the rows of a Capsule that has left, once its databases are dropped. */
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
