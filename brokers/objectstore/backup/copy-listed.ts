import { ServiceError } from '@space/broker-kit';
import { S3Error } from '../upstream/errors.ts';
import { isAlwaysNewest } from './choose.ts';
import { type Contents, copyObject, currentState } from './copy-object.ts';
import type { Earlier } from './earlier.ts';
import { type Entry, isSameState, type ObjectState } from './entry.ts';
import { UnreadableError } from './errors.ts';
import type { Inventory } from './inventory.ts';
import { reading } from './reading.ts';
import { isAbsent, PAUSES_MS, retrying } from './retrying.ts';
import type { Run } from './run.ts';

/** An object of the bucket's list, with its entry in the newest point. */
export interface Listed {
  readonly state: ObjectState;
  readonly earlier: Entry | undefined;
}

export interface Outcome {
  readonly key: string;
  /** Undefined if the object is gone, or if it cannot be read and no earlier state of it is in the backup. */
  readonly entry: Entry | undefined;
  /** Whether the object's bytes were copied now. */
  readonly isNew: boolean;
  readonly isUnreadable: boolean;
}

export async function* listedObjects(
  { objects }: Pick<Inventory, 'objects'>,
  { find }: Earlier,
): AsyncGenerator<Listed> {
  for await (const state of objects) yield { state, earlier: await find(state.key) };
}

/** Reading is attempted again for so many unreadable objects: with thousands of them a run would not end. */
const PATIENT = 20;
/** How often a copy begins anew with an object that has changed. */
const ATTEMPTS = 5;

/**
 * Returns a function that copies an object, unless the backup has its state. An object that the bucket's server does not return
 * stays in its earlier state, since it must not keep all others out of the backup.
 */
export function copier(run: Run, contents: Contents): (one: Listed, signal: AbortSignal) => Promise<Outcome> {
  let unreadable = 0;
  const hasContent = ({ content, stored }: Entry) => contents.get(content) === stored;
  return async ({ state, earlier }, signal) => {
    const { key } = state;
    const kept = earlier !== undefined && hasContent(earlier) ? earlier : undefined;
    if (kept !== undefined && isSameState(kept, state)) return { ...FOUND, key, entry: kept };
    const mine = { ...run, signal };
    const { pauses, attempts } =
      unreadable < PATIENT ? { pauses: PAUSES_MS, attempts: ATTEMPTS } : { pauses: [], attempts: 1 };
    const attempt = () => copyObject(mine, contents, state, attempts);
    try {
      const copied = await retrying(run.clock, signal, attempt, pauses);
      return { ...FOUND, key, entry: copied?.entry, isNew: copied?.isNew === true };
    } catch (error) {
      signal.throwIfAborted();
      const found = await causeOf(mine, key, error);
      // Without its newest anchor, a restore would trust an older registry.
      if (found === 'readable' || isAlwaysNewest(state)) throw error;
      if (found === 'gone') return { ...FOUND, key, entry: undefined };
      unreadable += 1;
      return { ...FOUND, key, entry: kept, isUnreadable: true };
    }
  };
}

const FOUND = { isNew: false, isUnreadable: false };

/** What has become of an object that could not be copied. If it is readable, it is not the reason. */
type Found = 'readable' | 'gone' | 'unreadable';

async function causeOf(run: Run, key: string, error: unknown): Promise<Found> {
  if (error instanceof UnreadableError) return 'unreadable';
  return mayBeOfObject(error) ? probed(run, key) : 'readable';
}

/**
 * Credentials that may not read or write concern all objects. Any other failure, of the destination too, may be that of an object
 * whose bytes do not arrive.
 */
function mayBeOfObject(error: unknown): boolean {
  if (error instanceof S3Error) return error.status !== 401 && error.status !== 403;
  return error instanceof ServiceError;
}

/**
 * Finds out whether an object that could not be copied is the reason: then the server answers, but does not return the object.
 * Rejects if it does not answer.
 */
async function probed(run: Run, key: string): Promise<Found> {
  const { bucket, signal } = run;
  const isListed = async () => (await currentState(run, key)) !== undefined;
  if (!(await isListed())) return 'gone';
  try {
    await reading(bucket, key, { signal }, async (_, body) => {
      for await (const _piece of body);
    });
    return 'readable';
  } catch (error) {
    if (isAbsent(error)) return (await isListed()) ? 'unreadable' : 'gone';
    signal.throwIfAborted();
    return mayBeOfObject(error) ? 'unreadable' : 'readable';
  }
}
