import type { S3Client } from '../upstream/types.ts';
import type { Clock } from './retrying.ts';
import type { Vault } from './vault.ts';

/** What every command works with. */
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

/** Where restores that were cut short are told; no point has any of it. */
export const MARKERS = 'restore/v1/';
/** Says that an earlier restore was cut short, and of what. */
export const MARKER = `${MARKERS}started`;
