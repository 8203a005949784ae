import type { StatusCondition } from '@space/manifests';
import { type Finding, no, type Reason } from '../conditions.ts';

/** Usage of one Assistant in bytes, or a finding if the broker has no data of it; undefined if it is not known yet. */
export interface AppUsage {
  readonly database: number | Finding | undefined;
  readonly storage: number | 'unlisted' | Finding | undefined;
}

/** Whether the answer is a finding and not a usage. */
export const isTrouble = (answer: unknown): answer is Finding =>
  typeof answer === 'object' && answer !== null && 'reason' in answer;

/** The finding that an earlier operator process wrote into the condition, if it has one of these reasons. */
export function troubleBefore(
  conditions: readonly StatusCondition[] | undefined,
  condition: 'DatabaseReady' | 'ObjectStoreReady',
  reasons: ReadonlySet<Reason>,
): Finding | undefined {
  const known = conditions?.find(({ type }) => type === condition);
  const reason = known?.reason as Reason | undefined;
  return known && reason && reasons.has(reason) ? no(reason, known.message) : undefined;
}

/** Caches answers of a broker by the UID of an object, so that not every reconcile calls the broker. */
export class Usages<T> {
  readonly #known = new Map<string, { readonly value: T | undefined; readonly at: number }>();
  readonly #now: () => number;

  constructor(now: () => number) {
    this.#now = now;
  }

  /** The last answer; undefined if there was none. */
  last(uid: string): T | undefined {
    return this.#known.get(uid)?.value;
  }

  /** Whether the broker was asked within that time, whether it answered or not. */
  isFresh(uid: string, withinMs: number): boolean {
    const known = this.#known.get(uid);
    return known !== undefined && this.#now() - known.at < withinMs;
  }

  /**
   * Whether the broker must be asked. `isInStatus` says that the status has an answer from an earlier operator process,
   * which counts as one from now.
   */
  isDue(uid: string, withinMs: number, isInStatus: boolean): boolean {
    if (this.#known.has(uid)) return !this.isFresh(uid, withinMs);
    if (isInStatus) this.note(uid);
    return !isInStatus;
  }

  /** Stores an answer; without one, the last answer counts as current. */
  note(uid: string, value: T | undefined = this.last(uid)): void {
    this.#known.set(uid, { value, at: this.#now() });
  }

  forget(uid: string): void {
    this.#known.delete(uid);
  }
}
