import type { SpaceNames } from '../context.ts';
import type { Node, Pod } from '../kinds.ts';
import { type Proof, probeName, proofOf } from './probe.ts';

/** What is known of each node. A failure that is being tried again stays one: every half minute the same is no news. */
export class Proofs {
  readonly #names: SpaceNames;
  readonly #failures = new Map<string, { readonly probe: string; readonly proof: Proof }>();

  constructor(names: SpaceNames) {
    this.#names = names;
  }

  of(node: Node, probes: readonly Pod[]): Proof {
    const { name } = node.metadata;
    const proof = proofOf(this.#names, node, probes);
    const failure = this.#failures.get(name);
    if (proof.verdict === 'failed') this.#failures.set(name, { probe: probeName(this.#names, node), proof });
    else if (proof.verdict === 'passed') this.#failures.delete(name);
    else if (failure?.probe === probeName(this.#names, node)) return failure.proof;
    return proof;
  }

  /** A node that is gone is forgotten. */
  forget(name: string): void {
    this.#failures.delete(name);
  }
}
