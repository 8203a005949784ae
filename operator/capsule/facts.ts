import type { Finding } from '../conditions.ts';
import type { Context } from '../context.ts';
import type { Capsule } from '../kinds.ts';
import { capsuleNamespace } from '../names.ts';
import { decideName } from './decide.ts';

/** What a reconcile goes by before anything is done. Principals and live objects are read by the steps that write them. */
export interface CapsuleFacts {
  readonly capsule: Capsule;
  readonly name: Finding;
  /** The name of its namespace, whether it is there or not. */
  readonly namespace: string;
  readonly sandbox: Finding;
  /** Conditions that its status had true. */
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
