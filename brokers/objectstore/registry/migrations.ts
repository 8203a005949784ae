import { applyMigrations, type Connections } from '@space/broker-kit/postgres';
import { installationId } from '@space/broker-kit/principals';
import { CUSTODY_TABLES } from './custody.ts';
import { CAPSULE_MAC, EPOCH, PRINCIPALS } from './principals.ts';
import { CREDITS, DOUBT, UPLOAD_ABORTS, UPLOAD_ENDS, UPLOAD_SETS, USAGE } from './usage.ts';

/**
 * Each entry is applied once, in order, in one transaction with its number. New ones are appended; a released one is
 * never edited.
 */
const MIGRATIONS: readonly string[] = [
  PRINCIPALS,
  USAGE,
  CUSTODY_TABLES,
  UPLOAD_SETS,
  DOUBT,
  EPOCH,
  CREDITS,
  CAPSULE_MAC,
  UPLOAD_ENDS,
  UPLOAD_ABORTS,
];

/** The registry version that this broker writes; it upgrades an older registry, and refuses a newer one. */
export const SCHEMA_VERSION = MIGRATIONS.length;

/** Brings the registry up to date and returns its random installation id. */
export function migrate(connections: Connections, space: string): Promise<string> {
  return connections.transaction(async (session) => {
    await applyMigrations(session, MIGRATIONS);
    return installationId(session, space);
  });
}
