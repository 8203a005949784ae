import type { AssistantStatus } from '@space/manifests';
import { newWorkloadPrincipal, type ObjectStoreBroker } from '../brokers/objects.ts';
import type { Assistant, Capsule } from '../kinds.ts';

type DeletionPolicy = NonNullable<AssistantStatus['deletionPolicy']>;

/**
 * The policy for an Assistant's data when it is deleted. If the Capsule is being deleted, its policy decides for
 * everything in it; otherwise the Assistant's own policy comes first, then the Capsule's, then the one in the status.
 * An unknown policy means Retain.
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

/** A broker whose drop only locks the files: it registers a new token, which nobody has. */
export const lockingFiles = (broker: ObjectStoreBroker): Pick<ObjectStoreBroker, 'dropApp'> => ({
  dropApp: (capsule, id, principal, signal) =>
    broker.createApp(capsule, id, { principal, workload: newWorkloadPrincipal() }, signal),
});
