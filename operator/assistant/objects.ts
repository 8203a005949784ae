import { principalFinding } from '../brokers/findings.ts';
import { newWorkloadPrincipal, type ObjectStoreBroker } from '../brokers/objects.ts';
import { encode, principalOf } from '../capsule/principal.ts';
import { type Finding, no, yes } from '../conditions.ts';
import { type Context, readSecret } from '../context.ts';
import { ensureGrant, withdrawGrant } from '../grants/step.ts';
import { type Pod, SECRET, type SecretObject } from '../kinds.ts';
import { ANNOTATION, objectPrincipalSecretName, workloadObjectsSecretName } from '../names.ts';
import { sha256 } from '../runtime/digest.ts';
import { together } from '../runtime/together.ts';
import { Secret } from '../secret.ts';
import { type Workload, workloadLabels, workloadNamespace } from './workload.ts';

export interface ObjectStoreStep {
  readonly finding: Finding;
  /** Digest of the token that the workload gets; without it there is nothing to run with. */
  readonly tokenDigest?: string;
  /** It has a grant, which must be looked after. */
  readonly granted?: boolean;
  readonly retry?: unknown;
}

const REGISTERED = yes('Ready', 'It has a place of its own in the object store.');

/**
 * The token is in its Secret before the broker hears of it, so that a crash at any line keeps it. One that is lost is
 * made anew, and the broker retires the old one. Called for the registered owner of the id alone.
 */
export async function ensureObjects(
  context: Context,
  broker: ObjectStoreBroker,
  workload: Workload,
  { token: found, pods }: { readonly token: SecretObject | undefined; readonly pods: readonly Pod[] },
  signal: AbortSignal,
): Promise<ObjectStoreStep> {
  const { metadata, spec } = workload.assistant;
  const readKey = context.grantKey;
  const registered = isRegistered(found, metadata.uid);
  if (registered && !readKey) {
    // Of a time when the Space granted any.
    await withdrawGrant(context, { secret: found, pods }, signal);
    return { finding: REGISTERED, tokenDigest: digestOf(found) };
  }

  const { capsule } = spec;
  const name = objectPrincipalSecretName(capsule);
  const [claimed, principal] = await together([
    claim(context, workload, found, signal),
    readSecret(context, context.names.systemNamespace, name, signal),
  ]);
  const tokenDigest = digestOf(claimed);
  if (!principal?.data?.['principal']) {
    const finding = no(
      'PrincipalLost',
      `Secret "${name}" with the Capsule's principal is missing. Put it back from a backup.`,
    );
    return { finding, retry: new Error('a principal is missing') };
  }
  try {
    const { id } = workload.manifest.platform;
    const secret = registered
      ? claimed
      : await register(context, broker, { capsule, id, principal: principalOf(principal), claimed }, signal);
    if (!readKey) return { finding: REGISTERED, tokenDigest };
    const about = { capsule, app: id, principal: principalOf(principal), secret, pods };
    const granted = await ensureGrant(context, broker, readKey, about, signal);
    return { finding: REGISTERED, tokenDigest, ...granted };
  } catch (error) {
    const finding = principalFinding(error, { names: context.names, capsule, secretName: name });
    if (!finding) throw error;
    return { finding, retry: error };
  }
}

async function register(
  context: Context,
  broker: ObjectStoreBroker,
  about: {
    readonly capsule: string;
    readonly id: string;
    readonly principal: Secret;
    readonly claimed: SecretObject;
  },
  signal: AbortSignal,
): Promise<SecretObject> {
  const { capsule, id, principal, claimed } = about;
  const token = claimed.data?.['token'] ?? '';
  const clear = new Secret(Buffer.from(token, 'base64').toString('utf8'));
  await broker.createApp(capsule, id, principal, clear, signal);
  const annotations = { [ANNOTATION.registered]: sha256(token) };
  return context.writer.merge<SecretObject>(SECRET, claimed, { metadata: { annotations } }, signal);
}

const digestOf = (secret: SecretObject | undefined): string => sha256(secret?.data?.['token'] ?? '');

/** Whether the broker knows the token that the Secret holds. */
export function isRegistered(
  secret: SecretObject | undefined,
  owner: string | undefined,
): secret is SecretObject {
  const token = secret?.data?.['token'];
  const annotations = secret?.metadata.annotations;
  return (
    token !== undefined &&
    annotations?.[ANNOTATION.registered] === sha256(token) &&
    annotations[ANNOTATION.owner] === owner
  );
}

/** The Secret with a token, made when it is missing; what another Assistant of the id left is handed on. */
async function claim(
  context: Context,
  workload: Workload,
  found: SecretObject | undefined,
  signal: AbortSignal,
): Promise<SecretObject> {
  const namespace = workloadNamespace(workload);
  const name = workloadObjectsSecretName(workload.manifest.platform.id);
  const { uid = '' } = workload.assistant.metadata;
  const fresh = { token: encode(newWorkloadPrincipal()) };
  if (!found) {
    const metadata = {
      name,
      namespace,
      labels: workloadLabels(workload),
      annotations: { [ANNOTATION.owner]: uid },
    };
    return context.writer.create<SecretObject>(SECRET, { metadata, type: 'Opaque', data: fresh }, signal);
  }
  if (found.data?.['token'] && found.metadata.annotations?.[ANNOTATION.owner] === uid) return found;
  const { resourceVersion } = found.metadata;
  const patch = {
    metadata: { resourceVersion, annotations: { [ANNOTATION.owner]: uid, [ANNOTATION.registered]: null } },
    data: fresh,
  };
  return context.writer.merge<SecretObject>(SECRET, found, patch, signal);
}
