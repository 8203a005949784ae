/** Statements about a move in the first server's registry, which stores where each Capsule is. */
import type { TokenDigest } from '@space/broker-kit';
import type { Session } from '@space/broker-kit/postgres';

/** The lock for registering a Capsule here that has no row yet; see the trigger `placed_here`. */
export async function lockPlace(session: Session, capsule: string): Promise<void> {
  await session.run('lock placement', 'SELECT pg_advisory_xact_lock(hashtextextended($1, 7305181003))', [
    capsule,
  ]);
}

/** Notes where a Capsule is being moved to; false if it is no longer on the source, or is being moved elsewhere. */
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

/**
 * Notes the principals of a Capsule that moves. For a moment no server may know them, and even then no caller must hear
 * that they are unknown.
 */
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

/** Notes that the Capsule is on the target. */
export async function noteMoved(session: Session, capsule: string, to: string): Promise<void> {
  await lockPlace(session, capsule);
  await session.run(
    'note moved',
    `UPDATE broker.placement SET server = $2, moving_to = NULL, changed_at = clock_timestamp()
     WHERE capsule_id = $1 AND moving_to = $2`,
    [capsule, to],
  );
}

/** Notes that the Capsule stays on the source. */
export async function noteStays(session: Session, capsule: string, to: string): Promise<void> {
  await lockPlace(session, capsule);
  await session.run(
    'note stay',
    'UPDATE broker.placement SET moving_to = NULL WHERE capsule_id = $1 AND moving_to = $2',
    [capsule, to],
  );
}
