import type { Pod } from '../kinds.ts';

/**
 * Since when the operator has known of pods, by its own steady clock: the API server's, which their times of creation are
 * of, may stand an hour from the one here.
 */
export class Sightings {
  readonly #now: () => number;
  readonly #since = new Map<string, number>();

  constructor(now: () => number) {
    this.#now = now;
  }

  /** Told of every change of a pod; one that is of no interest any more is forgotten. */
  note({ metadata: { uid = '' } }: Pod, counts: boolean): void {
    if (!counts) this.#since.delete(uid);
    else if (!this.#since.has(uid)) this.#since.set(uid, this.#now());
  }

  ageMs({ metadata: { uid = '' } }: Pod): number {
    const since = this.#since.get(uid);
    return since === undefined ? 0 : this.#now() - since;
  }
}
