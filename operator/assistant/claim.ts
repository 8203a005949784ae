import { no, yes } from '../conditions.ts';
import type { Context } from '../context.ts';
import { ASSISTANT, type Assistant, SECRET, type SecretObject } from '../kinds.ts';
import { ANNOTATION, LABEL, workloadSecretName } from '../names.ts';
import { isAlreadyExists } from '../runtime/errors.ts';
import type { Step } from '../step.ts';
import { type Workload, workloadLabels, workloadMetadata } from './identity.ts';

/** UID of the Assistant that an id's Secret, and with it its database, belongs to; what is retained is nobody's. */
export function registeredOwner(secret: SecretObject | undefined): string | undefined {
  return isRetained(secret) ? undefined : secret?.metadata.annotations?.[ANNOTATION.owner];
}

export const isRetained = (secret: SecretObject | undefined): boolean =>
  secret?.metadata.labels?.[LABEL.retained] === 'true';

const CLAIMED = yes('Ready', 'The id is its own.');

const LOST_RACE: Step<SecretObject> = {
  finding: no('DuplicateIdentifier', 'Another Assistant took the id at the same moment.'),
  retry: new Error('lost the race for an id'),
};

/**
 * Takes the id by a Secret of its name, which says whose the id is and later has the URL of its database. It is made
 * before any broker hears of the id, so that a crash leaves a record of who owns what may have been made; one that is
 * retained is taken up.
 */
export async function claimId(
  context: Context,
  {
    workload,
    databaseSecret: found,
  }: { readonly workload: Workload; readonly databaseSecret: SecretObject | undefined },
  signal: AbortSignal,
): Promise<Step<SecretObject>> {
  if (found) {
    const isOwned = registeredOwner(found) !== undefined;
    return { finding: CLAIMED, output: isOwned ? found : await takeUp(context, workload, found, signal) };
  }
  try {
    const metadata = workloadMetadata(workload, workloadSecretName(workload.manifest.platform.id));
    const made = await context.writer.create<SecretObject>(SECRET, { metadata, type: 'Opaque' }, signal);
    return { finding: CLAIMED, output: made };
  } catch (error) {
    if (isAlreadyExists(error)) return LOST_RACE;
    throw error;
  }
}

/**
 * The claim goes over in one write, and only as it was seen: of two that want it the slower finds it taken. One whose owner somebody
 * took off keeps its URL for the Assistant that had it already; for any other the URL may be of what was dropped.
 */
async function takeUp(
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
  const keepsUrl = !isRetained(claim) && hadDatabase(assistant);
  const patch = keepsUrl ? { metadata } : { metadata, data: { DATABASE_URL: null } };
  const taken = await context.writer.merge<SecretObject>(SECRET, claim, patch, signal);
  if (!isRetained(claim)) return taken;
  context.events.record(ASSISTANT, assistant, {
    type: 'Normal',
    reason: 'DataTakenUp',
    action: 'Claim',
    note: `It has the data that an earlier Assistant of the id "${manifest.platform.id}" left.`,
  });
  return taken;
}

/** Whether its status says that it has had a database. */
export const hadDatabase = ({ status }: Assistant): boolean =>
  status?.conditions?.some(({ type, status }) => type === 'DatabaseReady' && status === 'True') === true;

/** The claim stays, as a record that the id has data, and nobody's; the broker issues the URL again to who takes it up. */
export async function retainClaim(context: Context, claim: SecretObject, signal: AbortSignal): Promise<void> {
  const { resourceVersion } = claim.metadata;
  const metadata = { resourceVersion, labels: { [LABEL.retained]: 'true' } };
  await context.writer.merge(SECRET, claim, { metadata, data: NO_URL }, signal);
}

/** The claim stays whose it is, without the URL: its data waits for its drop, and nobody is to use it meanwhile. */
export async function closeClaim(context: Context, claim: SecretObject, signal: AbortSignal): Promise<void> {
  if (claim.data?.['DATABASE_URL'] === undefined) return;
  const metadata = { resourceVersion: claim.metadata.resourceVersion };
  await context.writer.merge(SECRET, claim, { metadata, data: NO_URL }, signal);
}

const NO_URL = { DATABASE_URL: null, 'ca.crt': null, 'postgres.crt': null };
