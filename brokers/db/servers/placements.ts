import type { TokenDigest } from '@space/broker-kit';
import type { Session } from '@space/broker-kit/postgres';
import { MAIN } from './config.ts';
import type { Placed } from './decide.ts';

/** All statements about where Capsules are. All but the last five are for the first server's registry. */

/** What is noted about a Capsule and, if one is given, about a principal. */
export interface Noted extends Placed {
  /** The Capsule that the principal is noted for. */
  readonly notedFor: string | null;
  /** Whether this registry has or had the principal. */
  readonly usedHere: boolean;
}

export async function findPlacement(
  session: Session,
  capsule: string,
  principal: TokenDigest | null = null,
): Promise<Noted> {
  const [row] = await session.read<Noted>(
    'find placement',
    `SELECT p.server, p.moving_to AS "movingTo",
       EXISTS (SELECT FROM broker.capsule WHERE capsule_id = $1) AS "onMain",
       (SELECT capsule_id FROM broker.placed_principal WHERE principal = $2) AS "notedFor",
       EXISTS (SELECT FROM broker.capsule WHERE principal = $2)
         OR EXISTS (SELECT FROM broker.retired_principal WHERE principal = $2) AS "usedHere"
     FROM (SELECT) one LEFT JOIN broker.placement p ON p.capsule_id = $1`,
    [capsule, principal],
  );
  if (row === undefined) throw new Error('one row without a row');
  return row;
}

/**
 * Notes the Capsule's server unless there is a note, and returns the noted one. A Capsule that was registered here
 * meanwhile, by a broker without further servers in its configuration, is here.
 */
export async function notePlacement(
  session: Session,
  capsule: string,
  server: string,
): Promise<Pick<Placed, 'movingTo'> & { readonly server: string }> {
  await session.run('lock placement', 'SELECT pg_advisory_xact_lock(hashtextextended($1, 7305181003))', [
    capsule,
  ]);
  await session.run(
    'note placement',
    `INSERT INTO broker.placement (capsule_id, server)
     SELECT $1, CASE WHEN EXISTS (SELECT FROM broker.capsule WHERE capsule_id = $1) THEN '${MAIN}' ELSE $2 END
     ON CONFLICT (capsule_id) DO NOTHING`,
    [capsule, server],
  );
  const [row] = await session.read<{ server: string; movingTo: string | null }>(
    'read placement',
    'SELECT server, moving_to AS "movingTo" FROM broker.placement WHERE capsule_id = $1',
    [capsule],
  );
  if (row === undefined) throw new Error('a placement that was noted is gone');
  return row;
}

/** Notes the principal's Capsule unless there is a note, and returns the noted one. */
export async function notePrincipal(
  session: Session,
  capsule: string,
  principal: TokenDigest,
): Promise<string> {
  await session.run(
    'note principal',
    `INSERT INTO broker.placed_principal (principal, capsule_id) VALUES ($2, $1)
     ON CONFLICT (principal) DO NOTHING`,
    [capsule, principal],
  );
  const [row] = await session.read<{ capsule: string }>(
    'read noted principal',
    'SELECT capsule_id AS capsule FROM broker.placed_principal WHERE principal = $1',
    [principal],
  );
  if (row === undefined) throw new Error('a principal that was noted is gone');
  return row.capsule;
}

/** Whether the principal's Capsule is being moved: for a moment two servers know the principal, or none. */
export async function isMoving(session: Session, principal: TokenDigest): Promise<boolean> {
  const rows = await session.read(
    'find moving principal',
    `SELECT 1 FROM broker.placed_principal n JOIN broker.placement p USING (capsule_id)
     WHERE n.principal = $1 AND p.moving_to IS NOT NULL`,
    [principal],
  );
  return rows.length > 0;
}

/** The number of Capsules noted for each server, including those on their way to it. */
export function placementsByServer(session: Session): Promise<{ server: string; capsules: number }[]> {
  return session.read(
    'count placements',
    `SELECT server, count(DISTINCT capsule_id)::int AS capsules
     FROM (SELECT capsule_id, server FROM broker.placement
           UNION ALL SELECT capsule_id, moving_to FROM broker.placement WHERE moving_to IS NOT NULL) noted
     GROUP BY server ORDER BY server`,
  );
}

/** Capsules that were placed recently, so that their servers may not have them yet. */
export function latestPlacements(session: Session): Promise<{ capsule: string; server: string }[]> {
  return session.read(
    'list latest placements',
    `SELECT capsule_id AS capsule, server FROM broker.placement
     WHERE changed_at > clock_timestamp() - interval '1 minute' ORDER BY changed_at DESC LIMIT 1000`,
  );
}

/**
 * Notes Capsules that another server's registry has, as after a restore of this one, so that no other server gets them.
 * Returns how many could not be noted.
 */
export async function notePlacementsOf(
  session: Session,
  server: string,
  capsules: readonly string[],
): Promise<number> {
  const rows = await session.run(
    'note placements',
    `INSERT INTO broker.placement (capsule_id, server)
     SELECT id, $1 FROM unnest($2::text[]) id
     WHERE NOT EXISTS (SELECT FROM broker.capsule c WHERE c.capsule_id = id)
     ON CONFLICT (capsule_id) DO NOTHING RETURNING 1`,
    [server, capsules],
  );
  return rows.length;
}

/** Notes where Capsules went that a server reports as moved away, if they are still noted there. Returns how many. */
export async function noteDeparturesOf(
  session: Session,
  server: string,
  left: readonly { readonly capsule: string; readonly to: string }[],
): Promise<number> {
  const rows = await session.run(
    'note departures',
    `UPDATE broker.placement p SET server = x.to_server, changed_at = clock_timestamp()
     FROM unnest($2::text[], $3::text[]) x (capsule_id, to_server)
     WHERE p.capsule_id = x.capsule_id AND p.server = $1 AND p.moving_to IS NULL RETURNING 1`,
    [server, left.map(({ capsule }) => capsule), left.map(({ to }) => to)],
  );
  return rows.length;
}

/** The Capsules that were moved away from a server, according to its own registry. */
export function departuresFrom(session: Session): Promise<{ capsule: string; to: string }[]> {
  return session.read(
    'list departures',
    "SELECT capsule_id AS capsule, server AS to FROM broker.departure WHERE state = 'gone'",
  );
}

/** The Capsules in a server's own registry. */
export async function capsulesOn(session: Session): Promise<string[]> {
  const rows = await session.read<{ capsule: string }>(
    'list capsules of server',
    'SELECT capsule_id AS capsule FROM broker.capsule',
  );
  return rows.map(({ capsule }) => capsule);
}

/** The number of a server's Capsules that are not gone, including those of `placed` that it does not have yet. */
export async function countCapsules(session: Session, placed: readonly string[]): Promise<number> {
  const [row] = await session.read<{ count: number }>(
    'count capsules',
    `SELECT ((SELECT count(*) FROM broker.capsule WHERE state <> 'finalized')
       + (SELECT count(*) FROM unnest($1::text[]) id
          WHERE NOT EXISTS (SELECT FROM broker.capsule c WHERE c.capsule_id = id)))::int AS count`,
    [placed],
  );
  return row?.count ?? 0;
}

/** Whether the Capsule is being or was moved away, according to the server's registry. */
export async function hasLeft(session: Session, capsule: string): Promise<boolean> {
  const rows = await session.read('find departure', 'SELECT 1 FROM broker.departure WHERE capsule_id = $1', [
    capsule,
  ]);
  return rows.length > 0;
}

/** Whether a server's registry has or had this principal. */
export async function hasPrincipal(session: Session, principal: TokenDigest): Promise<boolean> {
  const rows = await session.read(
    'find used principal',
    `SELECT 1 FROM broker.capsule WHERE principal = $1
     UNION ALL SELECT 1 FROM broker.retired_principal WHERE principal = $1`,
    [principal],
  );
  return rows.length > 0;
}
