import type { S3Client } from '../upstream/types.ts';
import type { Clock } from './retrying.ts';
import type { Vault } from './vault.ts';

/** What every command uses. */
export interface Run {
  readonly space: string;
  /** The Space's bucket. */
  readonly bucket: S3Client;
  readonly vault: Vault;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** The number of objects processed concurrently. */
  readonly atOnce: number;
}

/** The prefix of all objects of Capsules. */
export const CAPSULES = 'c/';
/** The prefix of records about interrupted restores; points never contain them. */
export const MARKERS = 'restore/v1/';
/** The prefix of records of uploads that are being completed. */
export const COMPLETIONS = `${MARKERS}completions/`;
/** Records that a restore was begun and not completed, and with which parameters. */
export const MARKER = `${MARKERS}started`;
