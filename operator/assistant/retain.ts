import type { AssistantStatus } from '@space/manifests';
import { newWorkloadPrincipal, type ObjectStoreBroker } from '../brokers/objects.ts';
import type { Context } from '../context.ts';
import { ASSISTANT, type Assistant, CAPSULE, type Capsule, SECRET, type SecretObject } from '../kinds.ts';
import { ANNOTATION, LABEL } from '../names.ts';
import { pathOf } from '../runtime/objects.ts';
import { type Workload, workloadLabels } from './workload.ts';

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

/** Asked of the API server itself: the Capsule may say Retain since a moment ago, and a drop cannot be undone. */
export async function readCapsule(
  { client, names }: Context,
  name: string,
  signal: AbortSignal,
): Promise<Capsule | undefined> {
  const { items } = await client.call<{ readonly items: readonly Capsule[] }>({
    method: 'GET',
    path: pathOf(CAPSULE, names.namespace),
    query: { fieldSelector: `metadata.name=${name}` },
    signal,
  });
  return items[0];
}

export const isRetained = (secret: SecretObject | undefined): boolean =>
  secret?.metadata.labels?.[LABEL.retained] === 'true';

/** The claim stays, as a record that the id has data, and nobody's; the broker issues the URL again to who takes it up. */
export async function retainClaim(context: Context, claim: SecretObject, signal: AbortSignal): Promise<void> {
  const { resourceVersion } = claim.metadata;
  const metadata = { resourceVersion, labels: { [LABEL.retained]: 'true' } };
  const data = { DATABASE_URL: null, 'ca.crt': null };
  await context.writer.merge(SECRET, claim, { metadata, data }, signal);
}

/** A broker for which to drop is to lock: the token that it knows from now on is nobody's. */
export const lockingFiles = (broker: ObjectStoreBroker): Pick<ObjectStoreBroker, 'dropApp'> => ({
  dropApp: (capsule, id, principal, signal) =>
    broker.createApp(capsule, id, principal, newWorkloadPrincipal(), signal),
});

/** The claim goes over in one write, and only as it was seen: of two that want it the slower finds it taken. */
export async function takeUp(
  context: Context,
  workload: Workload,
  claim: SecretObject,
  signal: AbortSignal,
): Promise<SecretObject> {
  const { assistant, manifest } = workload;
  const metadata = {
    resourceVersion: claim.metadata.resourceVersion,
    labels: { ...workloadLabels(workload), [LABEL.retained]: null },
    annotations: { [ANNOTATION.owner]: assistant.metadata.uid },
  };
  const data = { DATABASE_URL: null };
  const taken = await context.writer.merge<SecretObject>(SECRET, claim, { metadata, data }, signal);
  context.events.record(ASSISTANT, assistant, {
    type: 'Normal',
    reason: 'DataTakenUp',
    action: 'Claim',
    note: `It has the data that an earlier Assistant of the id "${manifest.platform.id}" left.`,
  });
  return taken;
}
