import type { Session } from '@space/broker-kit/postgres';

/** Rows are deleted in batches of this size, so that other transactions do not wait long. */
const BATCH = 2_000;

/** Each deletes a limited number of rows older than the retention time, and returns the number. */
type Prune = readonly [step: string, text: string];

/** Deletes by id, whose order is nearly that of time. */
const AUDIT: Prune = [
  'prune audit',
  `WITH old AS (
     DELETE FROM broker.audit
     WHERE id IN (SELECT id FROM broker.audit ORDER BY id LIMIT $2) AND at < clock_timestamp() - make_interval(days => $1)
     RETURNING at, operation, authority, outcome),
   summed AS (
     INSERT INTO broker.audit_summary AS s (month, operation, authority, outcome, entries)
     SELECT date_trunc('month', at AT TIME ZONE 'UTC')::date, operation, authority, outcome, count(*)
     FROM old GROUP BY 1, 2, 3, 4
     ON CONFLICT (month, operation, authority, outcome) DO UPDATE SET entries = s.entries + excluded.entries)
   SELECT count(*)::int AS count FROM old`,
];

/** A Capsule that is being dropped must still report what was dropped with it. */
const TOMBSTONES: Prune = [
  'prune tombstones',
  `WITH old AS (
     DELETE FROM broker.database d
     WHERE (capsule_id, app_id) IN (
         SELECT t.capsule_id, t.app_id FROM broker.database t JOIN broker.capsule c USING (capsule_id)
         WHERE t.state = 'dropped' AND c.state <> 'dropping'
           AND t.changed_at < clock_timestamp() - make_interval(days => $1) LIMIT $2)
       AND d.state = 'dropped'
     RETURNING 1)
   SELECT count(*)::int AS count FROM old`,
];

const CAPSULES: Prune = [
  'prune capsules',
  `WITH old AS (
     DELETE FROM broker.capsule c
     WHERE capsule_id IN (
         SELECT f.capsule_id FROM broker.capsule f
         WHERE f.state = 'finalized' AND f.changed_at < clock_timestamp() - make_interval(days => $1)
           AND NOT EXISTS (SELECT FROM broker.database d WHERE d.capsule_id = f.capsule_id) LIMIT $2)
       AND c.state = 'finalized'
     RETURNING 1)
   SELECT count(*)::int AS count FROM old`,
];

const DIGESTS: Prune = [
  'prune digests',
  `WITH old AS (
     DELETE FROM broker.retired_principal
     WHERE principal IN (
       SELECT principal FROM broker.retired_principal
       WHERE retired_at < clock_timestamp() - make_interval(days => $1) LIMIT $2)
     RETURNING 1)
   SELECT count(*)::int AS count FROM old`,
];

/** In this order, since a Capsule is deleted after its tombstones. */
export const PRUNES = [AUDIT, TOMBSTONES, CAPSULES, DIGESTS] as const;

/** Deletes one batch; returns whether there may be more. */
export async function prune(session: Session, [step, text]: Prune, days: number): Promise<boolean> {
  const [row] = await session.run<{ count: number }>(step, text, [days, BATCH]);
  return row?.count === BATCH;
}

/** The server's time in milliseconds. */
export async function serverTime(session: Session): Promise<number> {
  const [row] = await session.read<{ time: number }>(
    'read clock',
    'SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS time',
  );
  if (row === undefined) throw new Error('a clock without a time');
  return row.time;
}
