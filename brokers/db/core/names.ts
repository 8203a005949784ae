import { createHmac, randomBytes } from 'node:crypto';
import { lengthPrefixed, type Secret } from '@space/broker-kit';

/**
 * The form of PostgreSQL names that the broker creates. They are safe without quotes, and checked wherever they enter a
 * statement.
 */
const NAME = /^spc_[a-z0-9_]{1,59}$/;

/** The owner of a database; `app` is empty for the Capsule's own database. */
export interface Workload {
  readonly capsule: string;
  readonly app: string;
}

/** Twelve hex digits. */
export function newEpoch(): string {
  return randomBytes(6).toString('hex');
}

/**
 * The name of a workload's database and role: a random epoch, so that a late statement about an old incarnation never
 * applies to a new database, and a keyed hash, since every tenant can read pg_database.
 */
export function databaseName(key: Secret<Buffer>, space: string, workload: Workload, epoch: string): string {
  const parts = ['name/v2', space, workload.capsule, workload.app, epoch];
  const hash = createHmac('sha256', key.reveal()).update(lengthPrefixed(parts)).digest('hex');
  return `spc_${epoch}${hash.slice(0, 28)}`;
}

/** Whether the name was created for this workload; false for names from before epochs existed. */
export function isNameOf(key: Secret<Buffer>, space: string, workload: Workload, name: string): boolean {
  return databaseName(key, space, workload, name.slice(4, 16)) === name;
}

/** Returns the name for use in a statement. @throws Error unless the broker could have created it */
export function checkedName(name: string): string {
  if (!NAME.test(name)) throw new Error('not a name of ours');
  return name;
}
