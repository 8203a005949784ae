import { ConfigError } from '../config.ts';
import type { Session } from './session.ts';

/** Serialises replicas that start together; an arbitrary number that nothing else in a registry uses. */
const START_LOCK = 7_305_181_001;

/**
 * Brings a registry up to date in the caller's transaction. Each entry is applied once, in order, with its number; a
 * released entry is never edited.
 */
export async function applyMigrations(session: Session, migrations: readonly string[]): Promise<void> {
  await session.run('lock registry', 'SELECT pg_advisory_xact_lock($1)', [START_LOCK]);
  await session.run('create schema', 'CREATE SCHEMA IF NOT EXISTS broker');
  await session.run(
    'create version table',
    'CREATE TABLE IF NOT EXISTS broker.migration (version integer PRIMARY KEY, at timestamptz NOT NULL DEFAULT now())',
  );
  const [applied] = await session.read<{ version: number }>(
    'read version',
    'SELECT coalesce(max(version), 0) AS version FROM broker.migration',
  );
  const from = applied?.version ?? 0;
  const known = migrations.length;
  if (from > known)
    throw new ConfigError(
      `the registry was written by a newer broker: its version is ${from}, and this broker knows ${known}; run the newer one again, or restore a backup of before`,
    );
  for (const [index, statements] of migrations.entries()) {
    if (index < from) continue;
    await session.run(`migration ${index + 1}`, statements);
    await session.run('note version', 'INSERT INTO broker.migration (version) VALUES ($1)', [index + 1]);
  }
}
