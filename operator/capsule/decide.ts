import { isId } from '@space/manifests';
import { type ConditionType, type Finding, no, type Reason, unknown, yes } from '../conditions.ts';
import type { Capsule, Namespace, SecretObject } from '../kinds.ts';
import { ANNOTATION, LABEL } from '../names.ts';

/** Whether a Capsule's name can be the `capsule_id` that it becomes on the wire. */
export function decideName(name: string): Finding {
  if (isId(name)) return yes('Ready', 'The name is valid.');
  return no(
    'InvalidName',
    `"${name.slice(0, 80)}" cannot be a Capsule's name. Use 1 to 40 characters: a lowercase letter, then lowercase letters and digits, in segments joined by single hyphens; postgres, assistant-egress and platform-assistant-egress are reserved. A name cannot be changed: create another Capsule.`,
  );
}

/** What to do about the Capsule's namespace. It is ours only if this very Capsule created it; no other is adopted. */
export type NamespaceVerdict =
  | { readonly act: 'create' }
  | { readonly act: 'keep' }
  | { readonly act: 'refuse'; readonly finding: Finding };

export function decideNamespace(
  capsule: Capsule,
  name: string,
  live: Namespace | undefined,
): NamespaceVerdict {
  if (!live) return { act: 'create' };
  if (!ownsNamespace(capsule, live)) {
    return {
      act: 'refuse',
      finding: no(
        'NamespaceConflict',
        `Namespace "${name}" exists and was not created for this Capsule. It is never taken over: delete it, or choose another name for the Capsule.`,
      ),
    };
  }
  if (live.metadata.deletionTimestamp !== undefined) {
    return {
      act: 'refuse',
      finding: no(
        'NamespaceTerminating',
        `Namespace "${name}" is being deleted; it is created again after that.`,
      ),
    };
  }
  return { act: 'keep' };
}

export function ownsNamespace(capsule: Capsule, namespace: Namespace): boolean {
  return (
    namespace.metadata.annotations?.[ANNOTATION.owner] === capsule.metadata.uid &&
    namespace.metadata.labels?.[LABEL.capsule] === capsule.metadata.name
  );
}

/** What to do about the Secret with the Capsule's principal. */
export type PrincipalVerdict =
  | { readonly act: 'create' }
  | { readonly act: 'adopt' }
  | { readonly act: 'keep' }
  | { readonly act: 'refuse'; readonly finding: Finding };

export function decidePrincipal(capsule: Capsule, secret: SecretObject | undefined): PrincipalVerdict {
  if (!secret) return { act: 'create' };
  const { name, namespace, annotations, labels } = secret.metadata;
  if (annotations?.[ANNOTATION.owner] !== capsule.metadata.uid) {
    if (labels?.[LABEL.retained] === 'true' && labels[LABEL.capsule] === capsule.metadata.name)
      return { act: 'adopt' };
    return {
      act: 'refuse',
      finding: no(
        'PrincipalConflict',
        `Secret "${name}" contains the principal of an earlier Capsule of this name that was removed without its clean-up. To take over its data, label the Secret ${LABEL.retained}=true.`,
      ),
    };
  }
  if (!secret.data?.['principal']) {
    return {
      act: 'refuse',
      finding: no(
        'PrincipalLost',
        `Secret "${name}" of namespace "${namespace}" has no key "principal". Restore the Capsule's principal there from a backup. Without one, delete the Secret (annotate it ${ANNOTATION.open}=true first): the operator creates another principal, and this condition says how to tell the broker about it.`,
      ),
    };
  }
  return { act: 'keep' };
}

/** The conditions about what brokers have of a Capsule. */
export type BrokerCondition = 'DatabaseReady' | 'ObjectStoreReady';

/** Whether the status says that the condition is True. */
export const wasTrue = ({ status }: Capsule, condition: BrokerCondition): boolean =>
  status?.conditions?.some((one) => one.type === condition && one.status === 'True') === true;

/** Whether a broker has data of the Capsule, be it full or unusable now, as far as its status says. */
export function isProvisioned(capsule: Capsule, condition: BrokerCondition): boolean {
  const { database, storage } = capsule.status?.usage ?? {};
  const used = condition === 'DatabaseReady' ? database : storage;
  return used !== undefined || wasTrue(capsule, condition);
}

/** The finding of a step that waits for another condition. */
export const waitsFor = (what: ConditionType | 'spec.suspend'): Finding =>
  unknown('Waiting', `Waits for ${what}.`);

/**
 * The finding of a broker's step while the gate is closed: nothing new is provisioned, and what was provisioned before
 * still is.
 */
export function asBefore(capsule: Capsule, condition: 'DatabaseReady' | 'ObjectStoreReady'): Finding {
  const known = capsule.status?.conditions?.find(({ type }) => type === condition);
  return known?.status === 'True' ? yes(known.reason as Reason, known.message) : waitsFor('SandboxReady');
}

export const SUSPENDED = no('Suspended', 'spec.suspend is true. Set it to false to resume.');
