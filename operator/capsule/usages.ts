import type { StatusCondition } from '@space/manifests';
import { type Finding, no, type Reason } from '../conditions.ts';

/** What one Assistant takes, in bytes, or what its condition says where a broker has nothing of it; undefined is what nobody has said yet. */
export interface AppUsage {
  readonly database: number | Finding | undefined;
  readonly storage: number | 'unlisted' | Finding | undefined;
}

/** Whether a broker answered with something that a condition tells, and not with a usage. */
export const isTrouble = (heard: unknown): heard is Finding =>
  typeof heard === 'object' && heard !== null && 'reason' in heard;

/** What an operator before this one was told by a broker, for one of these reasons. */
export function troubleBefore(
  conditions: readonly StatusCondition[] | undefined,
  condition: 'DatabaseReady' | 'ObjectStoreReady',
  reasons: ReadonlySet<Reason>,
): Finding | undefined {
  const known = conditions?.find(({ type }) => type === condition);
  const reason = known?.reason as Reason | undefined;
  return known && reason && reasons.has(reason) ? no(reason, known.message) : undefined;
}

/** What was found out about objects and may be believed for a while, so that nobody is asked at every look. */
export class Usages<T> {
  readonly #known = new Map<string, { readonly value: T | undefined; readonly at: number }>();
  readonly #now: () => number;

  constructor(now: () => number) {
    this.#now = now;
  }

  /** The last that was heard; undefined when nothing was. */
  last(uid: string): T | undefined {
    return this.#known.get(uid)?.value;
  }

  /** Was somebody asked within that time, answered or not? */
  isFresh(uid: string, withinMs: number): boolean {
    const known = this.#known.get(uid);
    return known !== undefined && this.#now() - known.at < withinMs;
  }

  /** Must somebody be asked? What an operator before this one has told is believed as long as what is heard now. */
  isDue(uid: string, withinMs: number, isTold: boolean): boolean {
    if (this.#known.has(uid)) return !this.isFresh(uid, withinMs);
    if (isTold) this.note(uid);
    return !isTold;
  }

  /** Notes an answer; without one, that what was known is all there is for now. */
  note(uid: string, value: T | undefined = this.last(uid)): void {
    this.#known.set(uid, { value, at: this.#now() });
  }

  forget(uid: string): void {
    this.#known.delete(uid);
  }
}
