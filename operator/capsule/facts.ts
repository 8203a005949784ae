import type { Finding } from '../conditions.ts';
import type { Context } from '../context.ts';
import type { Capsule } from '../kinds.ts';
import { capsuleNamespace } from '../names.ts';
import { decideName } from './decide.ts';

/** What a reconcile decides by. Principals and live objects are read by the steps that write them. */
export interface CapsuleFacts {
  readonly capsule: Capsule;
  readonly name: Finding;
  /** The name of the Capsule's namespace, whether it exists or not. */
  readonly namespace: string;
  readonly sandbox: Finding;
  /** Types of the conditions that are True in the status. */
  readonly wereTrue: ReadonlySet<string>;
}

export function gatherFacts({ names, gate }: Context, capsule: Capsule): CapsuleFacts {
  const { name } = capsule.metadata;
  const conditions = capsule.status?.conditions ?? [];
  return {
    capsule,
    name: decideName(name),
    namespace: capsuleNamespace(names.space, name),
    sandbox: gate(),
    wereTrue: new Set(conditions.filter(({ status }) => status === 'True').map(({ type }) => type)),
  };
}
