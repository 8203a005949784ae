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
}

export function gatherFacts({ names, gate }: Context, capsule: Capsule): CapsuleFacts {
  const { name } = capsule.metadata;
  return {
    capsule,
    name: decideName(name),
    namespace: capsuleNamespace(names.space, name),
    sandbox: gate(),
  };
}
