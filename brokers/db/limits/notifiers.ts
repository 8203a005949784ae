/** A queue that is fuller than this is shortened. */
export const QUEUED = 0.5;
/** A queue that is shorter than this has nothing left of what was seen before. */
const SHORT = 0.1;
/** Milliseconds for which only sessions of whoever fills the queue are ended. */
const PATIENCE_MS = 5_000;

/**
 * Finds whose notifications fill the queue. Any session that listens and stays in a transaction may keep them there, and the
 * server does not tell which one listens: usually it is a session of the role that notifies.
 */
export class Notifiers {
  readonly #now: () => number;
  /** How often each role was seen adding notifications since the queue was short. */
  readonly #seen = new Map<string, number>();
  #fullSince: number | undefined;

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** Notes a role that was seen adding notifications; many of them take long, so that it is seen more often. */
  note(role: string): void {
    this.#seen.set(role, (this.#seen.get(role) ?? 0) + 1);
  }

  /**
   * Returns the role that alone is to be ended for a queue that is so full, from 0 to 1; undefined if it is unknown, or if
   * that did not help.
   */
  look(full: number): string | undefined {
    if (full < SHORT) this.#seen.clear();
    if (full <= QUEUED) {
      this.#fullSince = undefined;
      return undefined;
    }
    this.#fullSince ??= this.#now();
    if (this.#now() - this.#fullSince > PATIENCE_MS) return undefined;
    const [most] = [...this.#seen].toSorted(([, a], [, b]) => b - a);
    return most?.[0];
  }
}
