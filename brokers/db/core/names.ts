import { createHmac } from 'node:crypto';
import { lengthPrefixed, type Secret } from '@space/broker-kit';

/** A PostgreSQL name that we made: safe unquoted, and checked wherever it enters a statement. */
const NAME = /^spc_[a-z0-9_]{1,59}$/;

/** Whose database it is. The Capsule's own has no app. */
export interface Workload {
  readonly capsule: string;
  readonly app: string;
}

/**
 * The name of a workload's database and role: a keyed hash, since every tenant can read pg_database. The
 * generation is part of it, so that a late statement about an old life never meets a new database.
 */
export function databaseName(
  key: Secret<Buffer>,
  space: string,
  workload: Workload,
  generation: number,
): string {
  const parts = ['name/v1', space, workload.capsule, workload.app, String(generation)];
  const hash = createHmac('sha256', key.reveal()).update(lengthPrefixed(parts)).digest('hex');
  return `spc_${hash.slice(0, 40)}`;
}

/** Throws unless the text is one of our names; returns it, to be put into a statement as it is. */
export function checkedName(name: string): string {
  if (!NAME.test(name)) throw new Error('not a name of ours');
  return name;
}
