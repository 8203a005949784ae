import { isDeepStrictEqual } from 'node:util';
import type { Finding } from '../conditions.ts';
import type { Node, Pod, RuntimeClass } from '../kinds.ts';
import type { SpaceNames } from '../names.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Reflector } from '../runtime/reflector.ts';
import type { Stores } from '../stores.ts';
import { decideGate, isCandidate, isUnreadable, isUsable } from './gate.ts';
import { decideNetwork, isAsked, networkQuestion, type Walls } from './network.ts';
import { isProbe, type Proof, sandboxQuestion } from './probe.ts';
import { Proofs } from './proofs.ts';

export interface Gate {
  readonly now: () => Finding;
  /** Decides again, and reports a different verdict; called whenever something may have changed it. */
  readonly check: () => void;
  /** Results of all nodes that the class selects; empty without the class. */
  readonly proofs: () => readonly Proof['verdict'][];
}

export interface GateOptions {
  readonly names: SpaceNames;
  readonly stores: Stores;
  readonly reflectors: GateReflectors;
  readonly clock: Clock;
}

export interface GateReflectors {
  readonly nodes: Reflector<Node>;
  readonly runtimeClasses: Reflector<RuntimeClass>;
  readonly pods: Reflector<Pod>;
}

/**
 * If the cluster cannot be read, the gate closes at once, but the change is reported only after this time, in
 * milliseconds: otherwise each restart of an API server would write every object twice.
 */
const BLIND_MS = 10_000;

/** Decides at every change of a class, a node or a probe, and reports only a different verdict. */
export function watchGate(
  { names, stores, reflectors, clock }: GateOptions,
  onChange: (finding: Finding) => void,
): Gate {
  const proofs = new Proofs();
  const question = sandboxQuestion(names);
  const proofOf = (node: Node) => proofs.of(question, node, stores.pods.by('probe', node.metadata.name));
  const decide = () =>
    decideGate({
      wanted: names,
      classes: {
        health: reflectors.runtimeClasses.health,
        found: stores.runtimeClasses.get(names.runtimeClass),
      },
      nodes: { health: reflectors.nodes.health, all: stores.nodes.list() },
      probes: { health: reflectors.pods.health, of: proofOf },
    });
  let last = decide();
  let hold = () => {};
  const check = () => {
    const next = decide();
    if (isDeepStrictEqual(next, last)) return;
    last = next;
    hold();
    if (isUnreadable(next)) hold = clock.after(BLIND_MS, () => onChange(next));
    else onChange(next);
  };
  stores.nodes.onChange(({ key, now }) => {
    if (!now) proofs.forget(key);
    check();
  });
  stores.runtimeClasses.onChange(check);
  stores.pods.onChange(({ before, now }) => {
    if (isProbe(before) || isProbe(now)) check();
  });
  return {
    now: () => last,
    check,
    proofs() {
      const found = stores.runtimeClasses.get(names.runtimeClass);
      if (!isUsable(found, names)) return [];
      const candidates = stores.nodes.list().filter((node) => isCandidate(node, found, names));
      return candidates.map((node) => proofOf(node).verdict);
    },
  };
}

export interface Network {
  /**
   * Whether network policies are enforced, as far as it was proved. If the cluster cannot be read, the gate is closed
   * in any case.
   */
  readonly now: () => Finding;
  /** Results of all nodes that the class selects. */
  readonly proofs: () => readonly Proof['verdict'][];
}

/**
 * The same for network policies, whose verdict changes with a node, a probe, or the Services that probes connect to.
 */
export function watchNetwork(
  { names, stores }: Pick<GateOptions, 'names' | 'stores'>,
  onChange: (finding: Finding) => void,
): Network {
  const proofs = new Proofs({ keepsPasses: true });
  const walls = (): readonly Walls[] => {
    const question = networkQuestion(names, stores);
    const found = stores.runtimeClasses.get(names.runtimeClass);
    const isOpen = (node: Node) => isUsable(found, names) && isCandidate(node, found, names);
    if (!question) return [];
    return stores.nodes.list().map((node) => ({
      node: node.metadata.name,
      proof: proofs.of(question, node, stores.pods.by('probe', node.metadata.name)),
      open: isOpen(node),
    }));
  };
  let last = decideNetwork(walls());
  const check = () => {
    const next = decideNetwork(walls());
    if (isDeepStrictEqual(next, last)) return;
    last = next;
    onChange(next);
  };
  stores.nodes.onChange(({ key, now }) => {
    if (!now) proofs.forget(key);
    check();
  });
  stores.runtimeClasses.onChange(check);
  stores.pods.onChange(({ before, now }) => {
    if (isProbe(before) || isProbe(now)) check();
  });
  stores.services.onChange(({ before, now }) => {
    if (isAsked(before) || isAsked(now)) check();
  });
  return {
    now: () => last,
    proofs: () => walls().flatMap(({ open, proof }) => (open ? [proof.verdict] : [])),
  };
}
