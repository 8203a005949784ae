import { ServiceError } from '@space/broker-kit';
import { S3Error } from '../upstream/errors.ts';

/** The pauses before further attempts; a server that restarts is back within their sum. */
export const PAUSES_MS: readonly number[] = [500, 2_000, 8_000, 20_000];

/** The time for a run, which tests replace. */
export interface Clock {
  now(): Date;
  pause(ms: number, signal: AbortSignal): Promise<void>;
}

/** Repeats an action from its beginning while it fails for a temporary reason. */
export async function retrying<T>(
  clock: Pick<Clock, 'pause'>,
  signal: AbortSignal,
  act: () => Promise<T>,
  pauses: readonly number[] = PAUSES_MS,
): Promise<T> {
  for (const ms of pauses) {
    try {
      return await act();
    } catch (error) {
      if (signal.aborted || !isPassing(error)) throw error;
      await clock.pause(ms, signal);
    }
  }
  return act();
}

const PASSING = new Set([429, 500, 502, 503, 504]);

function isPassing(error: unknown): boolean {
  if (error instanceof ServiceError) return error.code === 'unavailable';
  if (!(error instanceof S3Error)) return false;
  if (error.kind === 'answered') return PASSING.has(error.status);
  return error.kind !== 'tls';
}

/** Whether the server reports that the object does not exist. */
export function isAbsent(error: unknown): boolean {
  return (
    error instanceof S3Error &&
    error.kind === 'answered' &&
    error.status === 404 &&
    error.code !== 'NoSuchBucket'
  );
}
