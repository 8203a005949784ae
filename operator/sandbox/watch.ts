import type { Finding } from '../conditions.ts';
import type { SpaceNames } from '../context.ts';
import type { Node, RuntimeClass } from '../kinds.ts';
import type { Reflector } from '../runtime/reflector.ts';
import type { Stores } from '../stores.ts';
import { decideGate } from './gate.ts';

export interface Gate {
  readonly now: () => Finding;
  /** Looks whether the verdict is another one; called whenever something may have changed it. */
  readonly check: () => void;
}

/** Decides anew with every change of a class or a node, and tells only when the verdict is another one. */
export function watchGate(
  names: SpaceNames,
  stores: Stores,
  reflectors: { readonly nodes: Reflector<Node>; readonly runtimeClasses: Reflector<RuntimeClass> },
  onChange: (finding: Finding) => void,
): Gate {
  const decide = () =>
    decideGate({
      className: names.runtimeClass,
      handler: names.handler,
      classes: {
        health: reflectors.runtimeClasses.health,
        found: stores.runtimeClasses.get(names.runtimeClass),
      },
      nodes: { health: reflectors.nodes.health, all: stores.nodes.list() },
    });
  let last = decide();
  const check = () => {
    const next = decide();
    if (next.status === last.status && next.reason === last.reason && next.message === last.message) return;
    last = next;
    onChange(next);
  };
  stores.nodes.onChange(check);
  stores.runtimeClasses.onChange(check);
  return { now: () => last, check };
}
