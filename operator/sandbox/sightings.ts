import type { Pod } from '../kinds.ts';

/**
 * Records when the operator first saw each pod, by its own monotonic clock. Creation times are by the API server's
 * clock, which may differ by an hour.
 */
export class Sightings {
  readonly #now: () => number;
  readonly #since = new Map<string, number>();

  constructor(now: () => number) {
    this.#now = now;
  }

  /** Called for every change of a pod; if `counts` is false, the pod is forgotten. */
  note({ metadata: { uid = '' } }: Pod, counts: boolean): void {
    if (!counts) this.#since.delete(uid);
    else if (!this.#since.has(uid)) this.#since.set(uid, this.#now());
  }

  ageMs({ metadata: { uid = '' } }: Pod): number {
    const since = this.#since.get(uid);
    return since === undefined ? 0 : this.#now() - since;
  }
}
