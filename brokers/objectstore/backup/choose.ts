import type { Entry } from './entry.ts';
import { NameTable } from './name-table.ts';

/** The time in which a run read the bucket; each key was read at some moment in it. */
export interface Span {
  readonly name: string;
  readonly started: Date;
  readonly finished: Date;
}

/** The points that a restore to a time uses. */
export interface Around<P> {
  /** The last point that ended before that time. */
  readonly before: P | undefined;
  /** The first point that began at or after it. */
  readonly after: P | undefined;
}

export function pointsAround<P extends Span>(points: readonly P[], at: Date): Around<P> {
  let before: P | undefined;
  let after: P | undefined;
  for (const point of points) {
    if (point.finished < at && (before === undefined || point.finished > before.finished)) before = point;
    if (point.started >= at && (after === undefined || point.started < after.started)) after = point;
  }
  return { before, after };
}

/**
 * Keys that record which answers were given. They are always restored from the newest point: a registry behind them is
 * detected, and an administrator decides; a registry ahead of them would be trusted.
 */
export const ALWAYS_NEWEST = 'custody/v1/';

export function isAlwaysNewest({ key }: Pick<Entry, 'key'>): boolean {
  return key.startsWith(ALWAYS_NEWEST);
}

type Timed = Pick<Entry, 'key' | 'last_modified'>;

/** The objects of a restore; each time that they are read, the points are read again. */
export interface Chosen<E> {
  /** The keys that `isAlwaysNewest` selects. */
  anchors(): AsyncIterable<E>;
  /** All other keys. */
  others(): AsyncIterable<E>;
}

/**
 * Chooses the objects of a restore to a time from the two points around it and the newest one. An object that was
 * written at or before the time, and that the later point has unchanged, is restored as it was. Every other key is
 * restored as in the earlier point, which is its state at the time unless it changed after that point had read it;
 * objects that were deleted in between are restored, too. Nothing is newer than the time, except keys that
 * `isAlwaysNewest` selects.
 */
export function chosen<E extends Timed>(
  { before, after }: Around<() => AsyncIterable<E>>,
  newest: () => AsyncIterable<E>,
  at: Date,
  nameOf: (text: string) => string,
): Chosen<E> {
  const isUnchanged = ({ last_modified }: E) => new Date(last_modified) <= at;
  return {
    anchors: () => filtered(newest(), isAlwaysNewest),
    others: async function* () {
      const taken = new NameTable();
      if (after !== undefined)
        for await (const entry of filtered(after(), (one) => !isAlwaysNewest(one) && isUnchanged(one))) {
          taken.set(nameOf(entry.key), 0);
          yield entry;
        }
      if (before !== undefined)
        yield* filtered(before(), (one) => !isAlwaysNewest(one) && !taken.has(nameOf(one.key)));
    },
  };
}

export async function* filtered<T>(all: AsyncIterable<T>, isWanted: (one: T) => boolean): AsyncGenerator<T> {
  for await (const one of all) if (isWanted(one)) yield one;
}
