import type { LiveInput, Tenant } from '../policies/tenant.ts';

/**
 * Counts answers that contained a value. A host that echoes requests would confirm a guess of the value, since the
 * right one comes back as stars: after a few such answers the value is suspended until a person enters it again.
 */
export class Reflections {
  readonly #most: number;
  readonly #onCount: () => void;
  /** For each Assistant and input, the number of such answers with its present value. */
  readonly #counts = new WeakMap<Tenant, Map<string, { readonly counted: string; answers: number }>>();

  /** With `most` 0, answers are counted and no value is suspended. */
  constructor(most: number, onCount: () => void) {
    this.#most = most;
    this.#onCount = onCount;
  }

  count(tenant: Tenant, { key, counted }: LiveInput): void {
    this.#onCount();
    const counts = this.#counts.get(tenant) ?? new Map();
    this.#counts.set(tenant, counts);
    const known = counts.get(key);
    // A late answer to a request with an earlier value does not count against the present one.
    if (tenant.inputs.get(key)?.counted !== counted) return;
    if (known?.counted === counted) known.answers += 1;
    else counts.set(key, { counted, answers: 1 });
  }

  isSuspended(tenant: Tenant, { key, counted }: LiveInput): boolean {
    const known = this.#counts.get(tenant)?.get(key);
    return this.#most > 0 && known?.counted === counted && known.answers >= this.#most;
  }
}
