import { createHmac, randomBytes } from 'node:crypto';
import { lengthPrefixed, type Secret } from '@space/broker-kit';

/** A PostgreSQL name that we made: safe unquoted, and checked wherever it enters a statement. */
const NAME = /^spc_[a-z0-9_]{1,59}$/;

/** The owner of a database. The Capsule's own has no app. */
export interface Workload {
  readonly capsule: string;
  readonly app: string;
}

/** Twelve hex digits. */
export function newEpoch(): string {
  return randomBytes(6).toString('hex');
}

/**
 * The name of a workload's database and role: an epoch, and a keyed hash, since every tenant can read pg_database. The
 * epoch is random, so that a late statement about an old incarnation never meets a new database.
 */
export function databaseName(key: Secret<Buffer>, space: string, workload: Workload, epoch: string): string {
  const parts = ['name/v2', space, workload.capsule, workload.app, epoch];
  const hash = createHmac('sha256', key.reveal()).update(lengthPrefixed(parts)).digest('hex');
  return `spc_${epoch}${hash.slice(0, 28)}`;
}

/** Was this name made for this workload? Names of before there were epochs are told of nobody. */
export function isNameOf(key: Secret<Buffer>, space: string, workload: Workload, name: string): boolean {
  return databaseName(key, space, workload, name.slice(4, 16)) === name;
}

/** Throws unless the text is one of our names; returns it, to be put into a statement as it is. */
export function checkedName(name: string): string {
  if (!NAME.test(name)) throw new Error('not a name of ours');
  return name;
}
