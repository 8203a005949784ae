import { principalFinding } from '../brokers/findings.ts';
import { encode, principalOf } from '../capsule/principal.ts';
import { type Finding, no, yes } from '../conditions.ts';
import { type Context, readSecret } from '../context.ts';
import { ASSISTANT, SECRET, type SecretObject } from '../kinds.ts';
import { ANNOTATION, principalSecretName, workloadSecretName } from '../names.ts';
import { issuedPatch, rotationAsked, rotationEvent } from '../rotation.ts';
import { sha256 } from '../runtime/digest.ts';
import { isAlreadyExists } from '../runtime/errors.ts';
import { isRetained, takeUp } from './retain.ts';
import { type Workload, workloadLabels, workloadNamespace } from './workload.ts';

export interface DatabaseStep {
  readonly finding: Finding;
  /** What the workload gets; without it there is nothing to run with. */
  readonly access?: DatabaseAccess;
  readonly retry?: unknown;
}

/** What a pod is made of when it has a database: a digest of its Secret, and whether an authority is in it. */
export interface DatabaseAccess {
  readonly digest: string;
  readonly verified: boolean;
}

const PROVISIONED = yes('Ready', 'It has a database of its own.');

/** UID of the Assistant that an id's Secret, and with it its database, belongs to; what is retained is nobody's. */
export function registeredOwner(secret: SecretObject | undefined): string | undefined {
  return isRetained(secret) ? undefined : secret?.metadata.annotations?.[ANNOTATION.owner];
}

export const LOST_RACE: DatabaseStep = {
  finding: no('DuplicateIdentifier', 'Another Assistant took the id at the same moment.'),
  retry: new Error('lost the race for an id'),
};

/**
 * The URL joins the Secret by which the id was claimed. A rotation that is asked for is the same call over again.
 */
export async function ensureDatabase(
  context: Context,
  workload: Workload,
  secret: SecretObject,
  signal: AbortSignal,
): Promise<DatabaseStep> {
  const known = secret.data?.['DATABASE_URL'];
  const rotation = rotationAsked(workload.assistant, secret);
  const ca = base64(await context.spaceCa());
  // With another authority the broker is asked again: it may also issue another form of the URL.
  const sameCa = secret.data?.['ca.crt'] === ca;
  const standing = known ? { access: accessOf(known, secret.data?.['ca.crt']) } : {};
  if (known && rotation === undefined && sameCa) return { ...standing, finding: PROVISIONED };

  const { capsule } = workload.assistant.spec;
  const name = principalSecretName(capsule);
  const principal = await readSecret(context, context.names.systemNamespace, name, signal);
  if (!principal?.data?.['principal']) {
    const finding = no(
      'PrincipalLost',
      `Secret "${name}" with the Capsule's principal is missing. Put it back from a backup.`,
    );
    return { ...standing, finding, retry: new Error('a principal is missing') };
  }
  try {
    const { id } = workload.manifest.platform;
    const url = encode(await context.database.createApp(capsule, id, principalOf(principal), signal));
    const data = { DATABASE_URL: url, ...(sameCa ? {} : { 'ca.crt': ca ?? null }) };
    await context.writer.merge(SECRET, secret, issuedPatch(secret, data, rotation), signal);
    if (known && rotation !== undefined) {
      const consequence = 'Its pods are replaced by pods that have the new one.';
      const event = rotationEvent(url !== known, consequence, `rotate ${capsule} ${id}`);
      context.events.record(ASSISTANT, workload.assistant, event);
    }
    return { finding: PROVISIONED, access: accessOf(url, ca) };
  } catch (error) {
    const finding = principalFinding(error, { names: context.names, capsule, secretName: name });
    if (!finding) throw error;
    return { ...standing, finding, retry: error };
  }
}

function accessOf(url: string, ca: string | undefined): DatabaseAccess {
  return { digest: sha256(ca === undefined ? url : `${url} ${ca}`), verified: ca !== undefined };
}

function base64(text: string | undefined): string | undefined {
  return text === undefined ? undefined : Buffer.from(text, 'utf8').toString('base64');
}

/**
 * Takes the id by a Secret of its name before any broker hears of it, so that a crash leaves a record of who owns what
 * may have been made; one that is retained is taken up. Undefined when another was faster.
 */
export async function claimId(
  context: Context,
  workload: Workload,
  found: SecretObject | undefined,
  signal: AbortSignal,
): Promise<SecretObject | undefined> {
  if (found) return isRetained(found) ? takeUp(context, workload, found, signal) : found;
  try {
    return await context.writer.create<SecretObject>(
      SECRET,
      {
        metadata: {
          name: workloadSecretName(workload.manifest.platform.id),
          namespace: workloadNamespace(workload),
          labels: workloadLabels(workload),
          annotations: { [ANNOTATION.owner]: workload.assistant.metadata.uid ?? '' },
        },
        type: 'Opaque',
      },
      signal,
    );
  } catch (error) {
    if (isAlreadyExists(error)) return undefined;
    throw error;
  }
}
