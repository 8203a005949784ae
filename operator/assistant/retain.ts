import type { AssistantStatus } from '@space/manifests';
import { newWorkloadPrincipal, type ObjectStoreBroker } from '../brokers/objects.ts';
import type { Assistant, Capsule } from '../kinds.ts';

type DeletionPolicy = NonNullable<AssistantStatus['deletionPolicy']>;

/**
 * What becomes of an Assistant's data when it is deleted: a Capsule that goes decides for all that is in it, else the
 * Assistant's own word counts, then its Capsule's, then what was told last. An unknown word keeps.
 */
export function deletionPolicyOf(
  { spec, status }: Assistant,
  capsule: Capsule | undefined,
): DeletionPolicy | undefined {
  const inherited = capsule ? (capsule.spec.deletionPolicy ?? 'Drop') : status?.deletionPolicy;
  const going = capsule?.metadata.deletionTimestamp !== undefined;
  const policy = going ? inherited : (spec.deletionPolicy ?? inherited);
  return policy === undefined || policy === 'Drop' ? policy : 'Retain';
}

/** A broker for which to drop is to lock: the token that it knows from now on is nobody's. */
export const lockingFiles = (broker: ObjectStoreBroker): Pick<ObjectStoreBroker, 'dropApp'> => ({
  dropApp: (capsule, id, principal, signal) =>
    broker.createApp(capsule, id, principal, newWorkloadPrincipal(), signal),
});
