import type { S3Client } from '../upstream/types.ts';
import { BackupError } from './errors.ts';
import { listed } from './pieces.ts';
import { pointName, startedOf } from './point-names.ts';
import { type Clock, retrying } from './retrying.ts';

/**
 * A Space's state from Kubernetes, sealed by the operator's `backup.mjs` for the administrator; it is only transported
 * here and never read.
 */
export interface States {
  readonly s3: S3Client;
  readonly prefix: string;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/** A state with 10,000 Assistants has about 60 MiB. */
const MOST_BYTES = 512 * 1024 * 1024;
const LEAST_STATES = 2;
const DAY_MS = 86_400_000;

const folder = (prefix: string) => `${prefix}/states/`;

/** Stores a state under the present time; returns its name. */
export async function putState({ s3, prefix, clock, signal }: States, sealed: Buffer): Promise<string> {
  const name = pointName(clock.now());
  const headers = { 'content-type': 'application/octet-stream' };
  await retrying(clock, signal, () => s3.put(folder(prefix) + name, sealed, { headers, signal }));
  return name;
}

/** The newest state that was taken at or before a time, or the oldest if all are newer; without a time, the newest. */
export async function getState(states: States, at: Date | undefined): Promise<Buffer> {
  const { s3, prefix, clock, signal } = states;
  const names = await namesOf(states);
  const [oldest] = names;
  const name = names.findLast((one) => at === undefined || (startedOf(one) ?? at) <= at) ?? oldest;
  if (name === undefined)
    throw new BackupError(
      `there is no state under ${folder(prefix)}: look at BACKUP_S3_BUCKET and BACKUP_S3_PREFIX, or at the Jobs of backup`,
    );
  const key = folder(prefix) + name;
  const { body } = await retrying(clock, signal, () => s3.read(key, MOST_BYTES, { signal }));
  return body;
}

/** Removes old states, but not the last of them, which is that of the oldest kept moments; returns how many. */
export async function expireStates(states: States, keepDays: number): Promise<number> {
  const { s3, prefix, clock, signal } = states;
  const before = clock.now().getTime() - keepDays * DAY_MS;
  const names = await namesOf(states);
  const isOld = (name: string) => (startedOf(name)?.getTime() ?? before) < before;
  const needed = names.findLast(isOld);
  const old = names
    .slice(0, -LEAST_STATES)
    .filter((name) => isOld(name) && name !== needed)
    .map((name) => folder(prefix) + name);
  if (old.length === 0) return 0;
  const [failed] = await retrying(clock, signal, () => s3.deleteMany(old, { signal }));
  if (failed !== undefined)
    throw new BackupError(
      `the backup's server did not delete ${failed.key}: let the key of the backup delete`,
    );
  return old.length;
}

async function namesOf(states: States): Promise<readonly string[]> {
  const names: string[] = [];
  for await (const { key } of listed(states, folder(states.prefix))) {
    const name = key.slice(folder(states.prefix).length);
    if (startedOf(name) !== undefined) names.push(name);
  }
  return names.sort();
}
