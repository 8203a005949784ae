import type { Entry } from './entry.ts';

/** When a run looked at the bucket: each key at some moment between the two. */
export interface Span {
  readonly name: string;
  readonly started: Date;
  readonly finished: Date;
}

/** The points that a restore to one time takes objects from. */
export interface Around<P> {
  /** The last that finished before that time. */
  readonly before: P | undefined;
  /** The first that started at or after it. */
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
 * These say what was answered. They come from the newest point whatever the time is: a registry behind them is noticed, and
 * an administrator answers for it; one ahead of them would be believed.
 */
const ALWAYS_NEWEST = 'custody/v1/';

export function isAlwaysNewest({ key }: Pick<Entry, 'key'>): boolean {
  return key.startsWith(ALWAYS_NEWEST);
}

type Timed = Pick<Entry, 'key' | 'last_modified'>;

/**
 * The objects of a restore to a time, of what two points around it and the newest point of all have.
 *
 * An object that was put at or before the time, and was there unchanged when the later point read it, comes back as it was.
 * Every other key comes back as the earlier point has it, and so as it was at the time unless it changed between the earlier
 * point's reading and the time; what was deleted in between is there again. Nothing is of later than the time, except what
 * `isAlwaysNewest` names.
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
