import { z } from 'zod';
import type { ListedObject } from '../upstream/types.ts';
import { ALWAYS_NEWEST, isAlwaysNewest } from './choose.ts';
import { stateOf } from './copy-object.ts';
import { isBefore } from './earlier.ts';
import type { ObjectState } from './entry.ts';
import { BackupError } from './errors.ts';
import { unreadInventory } from './inventories.ts';
import { gathered, textLines } from './lines.ts';
import { listed } from './pieces.ts';
import type { Clock } from './retrying.ts';
import { MARKERS, type Run } from './run.ts';

/** The objects of the bucket that a run may copy. */
export interface Inventory {
  /** The prefixes whose list was not read to its end. */
  readonly unlisted: readonly string[];
  /** The objects as they were listed, in the order of the list. */
  readonly objects: AsyncIterable<ObjectState>;
}

/**
 * Lists the bucket before anything is copied, as fast as its pages come. A list that goes on only as copying does would not end: a
 * Capsule can write keys ahead of it, and delete those behind it, faster than any run copies. The list is stored in the destination
 * under this name, since the keys of all Capsules do not fit into memory.
 *
 * An object that exists all the time from the start of a run to its end is in the list, since S3 leaves out no key that is there while
 * it lists. What is written later is for the next run. The only exception is an object behind the end of an `unlisted` prefix: whoever
 * wrote so much there could have deleted it as well.
 */
export async function takeInventory(run: Run, name: string): Promise<Inventory> {
  const unlisted: string[] = [];
  await run.vault.writeInventory(name, gathered(statesIn(run, unlisted)), run.signal);
  return { unlisted, objects: withAnchors(run, storedStates(run, name)) };
}

/** The most objects under a prefix that were written since its list began, beside one for each older object. */
const MOST_NEW = 20_000;
/** The keys that one principal may write: those of an Assistant, and those that all of a Capsule share. */
const WRITABLE = /^c\/[^/]+\/(?:a\/[^/]+|s)\//;

/** All objects but the anchors; adds a prefix to `unlisted` where it goes on behind that, because it outgrows its list. */
async function* statesIn(run: Run, unlisted: string[]): AsyncGenerator<ObjectState> {
  let after: string | undefined;
  do {
    const growth = new Growth(run.clock);
    const from = after;
    after = undefined;
    for await (const object of listed({ ...run, s3: run.bucket }, '', from)) {
      const outgrown = growth.outgrown(object);
      if (outgrown !== undefined) {
        if (unlisted.includes(outgrown))
          throw new BackupError(
            "the server of the Space's bucket does not begin a list after a key, as S3 does",
          );
        unlisted.push(outgrown);
        after = behind(outgrown);
        break;
      }
      if (!object.key.startsWith(MARKERS) && !isAlwaysNewest(object)) yield stateOf(object);
    }
  } while (after !== undefined);
}

/** The list after this begins behind all keys with the prefix, whose last `/` is followed by `0` in the order of bytes. */
function behind(prefix: string): string {
  return `${prefix.slice(0, -1)}0`;
}

/**
 * Tells a prefix under which objects are written as fast as they are listed, so that its list may have no end. Older objects are of a
 * number that nobody can raise any more. A clock that is behind the server's counts more as new, and one that is ahead of it as old
 * until the server's has come so far.
 */
class Growth {
  readonly #clock: Pick<Clock, 'now'>;
  #prefix: string | undefined;
  #since = 0;
  #left = MOST_NEW;

  constructor(clock: Pick<Clock, 'now'>) {
    this.#clock = clock;
  }

  /** Counts an object of the list; returns its prefix if that has too many. */
  outgrown({ key, modified }: ListedObject): string | undefined {
    const prefix = WRITABLE.exec(key)?.[0];
    if (prefix === undefined) return undefined;
    if (prefix !== this.#prefix) {
      this.#prefix = prefix;
      this.#since = this.#clock.now().getTime();
      this.#left = MOST_NEW;
    }
    this.#left += Date.parse(modified) > this.#since ? -1 : 1;
    return this.#left < 0 ? prefix : undefined;
  }
}

/** The last change may be missing or in another format: copying looks at that. */
const stateSchema: z.ZodType<ObjectState> = z.strictObject({
  key: z.string(),
  etag: z.string(),
  size: z.number(),
  last_modified: z.string(),
});

async function* storedStates({ vault, signal }: Run, name: string): AsyncGenerator<ObjectState> {
  for await (const line of textLines(vault.readInventory(name, signal), unreadInventory)) {
    const state = stateSchema.safeParse(parsed(line));
    if (!state.success) throw unreadInventory(state.error);
    yield state.data;
  }
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch (error) {
    throw unreadInventory(error);
  }
}

/**
 * Adds the anchors of custody in their place. They are listed when it is their turn: only the broker writes these keys, so their list
 * ends, and the later they are read, the less a restored registry can be ahead of them.
 */
async function* withAnchors(run: Run, others: AsyncIterable<ObjectState>): AsyncGenerator<ObjectState> {
  let areListed = false;
  for await (const state of others) {
    if (!areListed && isBefore(ALWAYS_NEWEST, state.key)) {
      areListed = true;
      yield* anchorsIn(run);
    }
    yield state;
  }
  if (!areListed) yield* anchorsIn(run);
}

async function* anchorsIn(run: Run): AsyncGenerator<ObjectState> {
  for await (const object of listed({ ...run, s3: run.bucket }, ALWAYS_NEWEST)) yield stateOf(object);
}
