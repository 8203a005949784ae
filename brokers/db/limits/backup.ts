import type { Session } from '@space/broker-kit/postgres';

/** What the program that copies the embedded server has recorded (`postgres/backup.sql`). */
export interface BackupNow {
  /** Seconds since the last complete copy was begun or, without one, since the program began; 0 without a backup. */
  readonly lastCopy: number;
  /** 1 if the archived log lacks a file since that copy. */
  readonly logGap: number;
  /** 1 if that copy has pages that do not match their checksum. */
  readonly damaged: number;
  /** Seconds since a file of the log was archived, while the one after it is complete and waits; 0 otherwise. */
  readonly waiting: number;
}

const NONE: BackupNow = { lastCopy: 0, logGap: 0, damaged: 0, waiting: 0 };

/** A server of another owner has no such record. That of a Space whose backup was switched off counts no more. */
export async function readBackup(session: Session): Promise<BackupNow> {
  const [is] = await session.read<{ recorded: boolean }>(
    'find backup',
    `SELECT to_regclass('space_backup.state') IS NOT NULL AND current_setting('archive_mode') <> 'off' AS recorded`,
  );
  if (is?.recorded !== true) return NONE;
  // A program of an earlier release records no damage, and has no column for it.
  const [row = NONE] = await session.read<BackupNow>(
    'read backup',
    `SELECT extract(epoch FROM clock_timestamp() - coalesce(copied_at, since))::float8 AS "lastCopy",
       CASE WHEN missing IS NULL THEN 0 ELSE 1 END AS "logGap",
       CASE WHEN to_jsonb(state)->>'damaged' IS NULL THEN 0 ELSE 1 END AS damaged,
       CASE WHEN pg_wal_lsn_diff(pg_current_wal_lsn(), archived) > 2 * pg_size_bytes(current_setting('wal_segment_size'))
         THEN extract(epoch FROM clock_timestamp() - last_archived_time)::float8 ELSE 0 END AS waiting
     FROM space_backup.state, (SELECT last_archived_time, CASE WHEN last_archived_wal ~ '^[0-9A-F]{24}'
         THEN (substr(last_archived_wal, 9, 8) || '/' || substr(last_archived_wal, 23, 2) || '000000')::pg_lsn END AS archived
       FROM pg_stat_archiver) AS archiver`,
  );
  return row;
}
