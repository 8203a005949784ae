import type { Node, Pod } from '../kinds.ts';
import { asks, type Proof, probeName, proofOf, type Question } from './probe.ts';

interface Ended {
  readonly probe: string;
  readonly proof: Proof;
}

/**
 * What is known of each node. A failure that is being tried again stays one: every half minute the same is no news. Where
 * passes hold for a time only, so does one that is being tried again.
 */
export class Proofs {
  readonly #keepsPasses: boolean;
  readonly #ended = new Map<string, Ended>();

  constructor({ keepsPasses = false }: { readonly keepsPasses?: boolean } = {}) {
    this.#keepsPasses = keepsPasses;
  }

  of(question: Question, node: Node, probes: readonly Pod[]): Proof {
    const { name } = node.metadata;
    const mine = probes.filter((pod) => asks(question, pod));
    const proof = proofOf(question, node, mine);
    const ended = this.#ended.get(name);
    const probe = probeName(question, node);
    if (proof.verdict === 'failed' || (proof.verdict === 'passed' && this.#keepsPasses))
      this.#ended.set(name, { probe, proof });
    else if (proof.verdict === 'passed') this.#ended.delete(name);
    else if (ended?.probe === probe) return ended.proof;
    return proof;
  }

  /** A node that is gone is forgotten. */
  forget(name: string): void {
    this.#ended.delete(name);
  }
}
