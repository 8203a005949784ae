import type { LiveInput, Tenant } from '../policies/tenant.ts';

/**
 * Counts the answers that told a value. A host that sends back whatever it is sent shows which guess is the value: that
 * one comes back as stars. So after a few such answers the value is not used any more, until a person enters one anew.
 */
export class Reflections {
  readonly #most: number;
  readonly #onCount: () => void;
  /** Of each Assistant by input: of which value, and how many. */
  readonly #counts = new WeakMap<Tenant, Map<string, { readonly envelope: string; answers: number }>>();

  /** With `most` 0 they are counted alone. */
  constructor(most: number, onCount: () => void) {
    this.#most = most;
    this.#onCount = onCount;
  }

  count(tenant: Tenant, { key, envelope }: LiveInput): void {
    this.#onCount();
    const counts = this.#counts.get(tenant) ?? new Map();
    this.#counts.set(tenant, counts);
    const known = counts.get(key);
    // A late answer to a request with an earlier value says nothing of the present one.
    if (tenant.inputs.get(key)?.envelope !== envelope) return;
    if (known?.envelope === envelope) known.answers += 1;
    else counts.set(key, { envelope, answers: 1 });
  }

  isSuspended(tenant: Tenant, { key, envelope }: LiveInput): boolean {
    const known = this.#counts.get(tenant)?.get(key);
    return this.#most > 0 && known?.envelope === envelope && known.answers >= this.#most;
  }
}
