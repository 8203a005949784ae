import type { ConditionType, Finding } from '../conditions.ts';
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
  /** The conditions of brokers that have data of the Capsule, be it full or unusable now. */
  readonly provisioned: ReadonlySet<ConditionType>;
}

/** The condition of each broker, and what the status says of its data. */
const BROKERS = [
  ['DatabaseReady', 'database'],
  ['ObjectStoreReady', 'storage'],
] as const;

export function gatherFacts({ names, gate }: Context, capsule: Capsule): CapsuleFacts {
  const { name } = capsule.metadata;
  const { conditions = [], usage } = capsule.status ?? {};
  const wasTrue = (condition: ConditionType) =>
    conditions.some(({ type, status }) => type === condition && status === 'True');
  return {
    capsule,
    name: decideName(name),
    namespace: capsuleNamespace(names.space, name),
    sandbox: gate(),
    provisioned: new Set(
      BROKERS.filter(([condition, kind]) => wasTrue(condition) || usage?.[kind] !== undefined).map(
        ([condition]) => condition,
      ),
    ),
  };
}
