import type { Node, Pod } from '../kinds.ts';
import { asks, type Proof, probeName, proofOf, type Question } from './probe.ts';

interface Ended {
  readonly probe: string;
  readonly proof: Proof;
}

/**
 * Results by node. A failure that is being probed again still counts as a failure, so that the verdict does not change
 * every half minute. If passed results expire, a passed one that is being probed again still counts as passed.
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

  /** Forgets a node that is gone. */
  forget(name: string): void {
    this.#ended.delete(name);
  }
}
