import type { Pod } from '../kinds.ts';

/**
 * Records when the operator first saw each pod, by its own monotonic clock: creation times are by the API server's clock, which
 * may differ by an hour from the local one.
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
