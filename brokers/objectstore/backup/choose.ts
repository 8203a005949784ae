import type { Entry } from './entry.ts';

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
const ALWAYS_NEWEST = 'custody/v1/';

export function isAlwaysNewest({ key }: Pick<Entry, 'key'>): boolean {
  return key.startsWith(ALWAYS_NEWEST);
}

type Timed = Pick<Entry, 'key' | 'last_modified'>;

/**
 * Chooses the objects of a restore to a time from the two points around it and the newest one. An object that was
 * written at or before the time, and that the later point has unchanged, is restored as it was. Every other key is
 * restored as in the earlier point, which is its state at the time unless it changed after that point had read it;
 * objects that were deleted in between are restored, too. Nothing is newer than the time, except keys that
 * `isAlwaysNewest` selects.
 */
export function chosen<E extends Timed>(
  { before, after }: Around<readonly E[]>,
  newest: readonly E[],
  at: Date,
): E[] {
  const result = new Map<string, E>();
  for (const entry of before ?? []) result.set(entry.key, entry);
  for (const entry of after ?? []) if (new Date(entry.last_modified) <= at) result.set(entry.key, entry);
  const anchors = newest.filter(isAlwaysNewest);
  return [...anchors, ...[...result.values()].filter((entry) => !isAlwaysNewest(entry))];
}
