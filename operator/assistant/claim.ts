import { type Finding, isTrue, lastFindings, no, unknown, yes } from '../conditions.ts';
import type { Context } from '../context.ts';
import { ASSISTANT, type Assistant, SECRET, type SecretObject } from '../kinds.ts';
import { ANNOTATION, LABEL, workloadSecretName } from '../names.ts';
import { isAlreadyExists } from '../runtime/errors.ts';
import type { Step } from '../step.ts';
import { type Workload, workloadLabels, workloadMetadata } from './identity.ts';

/**
 * UID of the Assistant that owns an id's Secret and, with it, the database; undefined for a retained Secret, which
 * nobody owns.
 */
export function registeredOwner(secret: SecretObject | undefined): string | undefined {
  return isRetained(secret) ? undefined : secret?.metadata.annotations?.[ANNOTATION.owner];
}

export const isRetained = (secret: SecretObject | undefined): boolean =>
  secret?.metadata.labels?.[LABEL.retained] === 'true';

const CLAIMED = yes('Ready', 'The id belongs to this Assistant.');

const LOST_RACE: Step<SecretObject> = {
  finding: no('DuplicateIdentifier', 'Another Assistant took the id at the same moment.'),
  retry: new Error('lost the race for an id'),
};

/**
 * Claims the id by creating a Secret of its name, which records the owner and later holds the URL of the database. The
 * Secret is created before any broker hears of the id, so that a crash leaves a record of the owner. A retained Secret
 * is taken over by this Assistant.
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
    note: `It takes over the data of an earlier Assistant with the id "${manifest.platform.id}".`,
  });
  return taken;
}

/** Whether its status says that it has had a database. */
const hadDatabase = ({ status }: Assistant): boolean =>
  status?.conditions?.some(({ type, status }) => type === 'DatabaseReady' && status === 'True') === true;

/** Reasons of a database that no broker was asked for: the Assistant waits, or does not have the id. */
const UNASKED = new Set(['Waiting', 'Suspended', 'DuplicateIdentifier', 'WriteRefused']);

/**
 * What its status says about its database, if a broker was asked for that. The claim says so, too, but goes with its
 * namespace.
 */
export function databaseBefore({ status }: Assistant): Finding | undefined {
  const { DatabaseReady: found } = lastFindings(status?.conditions);
  return found && (isTrue(found) || !UNASKED.has(found.reason)) ? found : undefined;
}

const ASKED = unknown('Starting', 'The database broker is asked for its database.');

/**
 * What the condition of the database says for as long as no URL is stored and a broker was, or is about to be, asked:
 * that there is one, or may be one. Nothing else in its place would do, since the claim may be lost at any moment.
 */
export const recordOf = (known: Finding | undefined): Finding => (known && isTrue(known) ? known : ASKED);

/** The claim stays without an owner, as a record that the id has data; the broker issues the URL again to the next owner. */
export async function retainClaim(context: Context, claim: SecretObject, signal: AbortSignal): Promise<void> {
  const { resourceVersion } = claim.metadata;
  const metadata = { resourceVersion, labels: { [LABEL.retained]: 'true' } };
  await context.writer.merge(SECRET, claim, { metadata, data: NO_URL }, signal);
}

/**
 * Removes the URL from the claim and leaves its owner as it is: the data waits to be dropped, and nobody may use it
 * until then.
 */
export async function closeClaim(context: Context, claim: SecretObject, signal: AbortSignal): Promise<void> {
  if (claim.data?.['DATABASE_URL'] === undefined) return;
  const metadata = { resourceVersion: claim.metadata.resourceVersion };
  await context.writer.merge(SECRET, claim, { metadata, data: NO_URL }, signal);
}

const NO_URL = { DATABASE_URL: null, 'ca.crt': null, 'postgres.crt': null };
