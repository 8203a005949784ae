import type { Connections, Session } from '@space/broker-kit/postgres';

/**
 * What the registry stores about bytes. For every Capsule the sum of five numbers, less the credits since the last
 * count, is never less than what is stored: counted (by that count), written since, reserved by replicas in blocks, in
 * doubt, and in parts of open uploads.
 */

/** The registry's connections that are needed here. */
export type Registry = Pick<Connections, 'lookup' | 'transaction'>;

/** Locks the Capsule's usage, so that sums stay valid until the transaction ends. */
export async function lockUsage(
  session: Session,
  capsulePrefix: string,
): Promise<{ readonly written: number; readonly countNumber: number }> {
  await session.run(
    'insert usage',
    'INSERT INTO broker.object_usage (place) VALUES ($1) ON CONFLICT DO NOTHING',
    [capsulePrefix],
  );
  const [row] = await session.run<{ written: number; count_number: number }>(
    'lock usage',
    'SELECT written::float8 AS written, count_number FROM broker.object_usage WHERE place = $1 FOR UPDATE',
    [capsulePrefix],
  );
  if (row === undefined) throw new Error('usage row vanished');
  return { written: row.written, countNumber: row.count_number };
}

/** Bytes that count against the quota. The sum is exact only under `lockUsage`. */
export async function usedBytes(session: Session, capsulePrefix: string): Promise<number> {
  const [row] = await session.run<{ used: number }>(
    'sum usage',
    `SELECT greatest(0,
       coalesce((SELECT counted + written - CASE WHEN credited_in = count_number THEN credited ELSE 0 END
                 FROM broker.object_usage WHERE place = $1), 0)
       + coalesce((SELECT sum(bytes) FROM broker.object_block WHERE place = $1), 0)
       + coalesce((SELECT sum(bytes) FROM broker.object_doubt WHERE place = $1), 0)
       + coalesce((SELECT sum(bytes) FROM broker.object_upload WHERE place = $1), 0)
     )::float8 AS used`,
    [capsulePrefix],
  );
  return row?.used ?? 0;
}

/** Whether less than a quarter of the quota is left, or not enough for another such write. */
export function isShort(quotaBytes: number, left: number, bytes = 0): boolean {
  return left < Math.max(quotaBytes / 4, bytes);
}

/** Sets what the replica's block holds, which has a row only while it holds something. Under `lockUsage`. */
export async function putBlock(
  session: Session,
  capsulePrefix: string,
  replica: string,
  bytes: number,
): Promise<void> {
  if (bytes === 0) return void (await endBlock(session, capsulePrefix, replica));
  await session.run(
    'grow block',
    `INSERT INTO broker.object_block (place, replica, bytes) VALUES ($1, $2, $3)
     ON CONFLICT (place, replica) DO UPDATE SET bytes = $3, renewed_at = clock_timestamp()`,
    [capsulePrefix, replica, bytes],
  );
}

/** The same of a block that has a row; false when that is no longer there. */
export async function shrinkBlock(
  session: Session,
  capsulePrefix: string,
  replica: string,
  bytes: number,
): Promise<boolean> {
  if (bytes === 0) return endBlock(session, capsulePrefix, replica);
  const rows = await session.run(
    'shrink block',
    'UPDATE broker.object_block SET bytes = $3 WHERE place = $1 AND replica = $2 RETURNING 1',
    [capsulePrefix, replica, bytes],
  );
  return rows.length === 1;
}

async function endBlock(session: Session, capsulePrefix: string, replica: string): Promise<boolean> {
  const rows = await session.run(
    'end block',
    'DELETE FROM broker.object_block WHERE place = $1 AND replica = $2 RETURNING 1',
    [capsulePrefix, replica],
  );
  return rows.length === 1;
}

export async function addWritten(session: Session, capsulePrefix: string, bytes: number): Promise<void> {
  await session.run('add written', 'UPDATE broker.object_usage SET written = written + $2 WHERE place = $1', [
    capsulePrefix,
    bytes,
  ]);
}

/** Adds doubt, grouped by the minute in which it becomes certain, so that any number of writes needs few rows. */
export async function addDoubt(
  session: Session,
  capsulePrefix: string,
  bytes: number,
  seconds: number,
): Promise<void> {
  await session.run(
    'add doubt',
    `INSERT INTO broker.object_doubt (place, certain_at, bytes)
     VALUES ($1, date_trunc('minute', clock_timestamp() + make_interval(secs => $3 + 60)), $2)
     ON CONFLICT (place, certain_at) DO UPDATE SET bytes = broker.object_doubt.bytes + $2`,
    [capsulePrefix, bytes, seconds],
  );
}

/** Renews the blocks of this replica; returns the prefixes of the Capsules whose blocks still exist. */
export async function renewBlocks(session: Session, replica: string): Promise<ReadonlySet<string>> {
  const rows = await session.run<{ capsulePrefix: string }>(
    'renew blocks',
    'UPDATE broker.object_block SET renewed_at = clock_timestamp() WHERE replica = $1 RETURNING place AS "capsulePrefix"',
    [replica],
  );
  return new Set(rows.map((row) => row.capsulePrefix));
}

/** Moves the bytes of dead replicas' blocks to doubt, since what they were sending may still be stored. */
export async function adoptDeadBlocks(
  session: Session,
  deadAfterSeconds: number,
  certainAfterSeconds: number,
): Promise<void> {
  await session.run(
    'adopt dead blocks',
    `WITH dead AS (
       DELETE FROM broker.object_block WHERE renewed_at < clock_timestamp() - make_interval(secs => $1)
       RETURNING place, bytes
     )
     INSERT INTO broker.object_doubt AS doubt (place, certain_at, bytes)
     SELECT place, date_trunc('minute', clock_timestamp() + make_interval(secs => $2 + 60)), sum(bytes)
     FROM dead GROUP BY place
     ON CONFLICT (place, certain_at) DO UPDATE SET bytes = doubt.bytes + excluded.bytes`,
    [deadAfterSeconds, certainAfterSeconds],
  );
}

export interface Count {
  readonly written: number;
  readonly countNumber: number;
  /** The time by the registry's clock. */
  readonly at: Date;
  /** Whether some doubt has become certain. */
  readonly certain: boolean;
}

/** The state before a listing begins. To be called under `lockUsage`. */
export async function beginCount(session: Session, capsulePrefix: string): Promise<Count> {
  const { written, countNumber } = await lockUsage(session, capsulePrefix);
  const [row] = await session.run<{ at: Date; certain: boolean }>(
    'begin count',
    `SELECT clock_timestamp() AS at, EXISTS (
       SELECT FROM broker.object_doubt WHERE place = $1 AND certain_at <= clock_timestamp()) AS certain`,
    [capsulePrefix],
  );
  if (row === undefined) throw new Error('no clock');
  return { written, countNumber, ...row };
}

/** Stores the result of a listing, unless another count has ended since it began. */
export async function finishCount(
  session: Session,
  capsulePrefix: string,
  begun: Count,
  listed: number,
): Promise<boolean> {
  const rows = await session.run(
    'finish count',
    `UPDATE broker.object_usage
     SET counted = $4, written = written - $2, count_number = count_number + 1, counted_at = clock_timestamp()
     WHERE place = $1 AND count_number = $3 RETURNING 1`,
    [capsulePrefix, begun.written, begun.countNumber, listed],
  );
  if (rows.length !== 1) return false;
  // Credits of earlier counts; their sums were deleted with those counts.
  await session.run(
    'end credits',
    'DELETE FROM broker.object_credit WHERE place = $1 AND count_number <= $2',
    [capsulePrefix, begun.countNumber],
  );
  await session.run('end doubt', 'DELETE FROM broker.object_doubt WHERE place = $1 AND certain_at <= $2', [
    capsulePrefix,
    begun.at,
  ]);
  return true;
}

/** What counts against a Capsule's quota, including bytes in doubt and reserved by replicas. */
export interface Usage {
  readonly used_bytes: number;
  readonly quota_bytes: number;
  readonly open_uploads: number;
}

export async function usageOf(session: Session, capsulePrefix: string, quotaBytes: number): Promise<Usage> {
  const used = await usedBytes(session, capsulePrefix);
  const [row] = await session.run<{ uploads: number }>(
    'count uploads',
    "SELECT count(*)::float8 AS uploads FROM broker.object_upload WHERE place = $1 AND upstream_id <> ''",
    [capsulePrefix],
  );
  return { used_bytes: used, quota_bytes: quotaBytes, open_uploads: row?.uploads ?? 0 };
}
