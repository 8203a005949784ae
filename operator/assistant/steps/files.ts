import { Secret } from '@space/contracts/secret';
import { asPrincipalRefused, missingPrincipal } from '../../brokers/findings.ts';
import { newWorkloadPrincipal, type ObjectStoreBroker } from '../../brokers/objects.ts';
import { encode, principalOf } from '../../capsule/principal.ts';
import { yes } from '../../conditions.ts';
import { type Context, readSecret } from '../../context.ts';
import { SECRET, type SecretObject } from '../../kinds.ts';
import { ANNOTATION, objectPrincipalSecretName, workloadObjectsSecretName } from '../../names.ts';
import { fromBase64 } from '../../runtime/base64.ts';
import { sha256 } from '../../runtime/digest.ts';
import { together } from '../../runtime/together.ts';
import type { Step } from '../../step.ts';
import { isRegistered, type RunFacts } from '../facts.ts';
import { type Workload, workloadMetadata } from '../identity.ts';
import { ensureGrant, withdrawGrant } from './grant.ts';

/** What the pod needs to use the object store. */
export interface FilesAccess {
  readonly tokenDigest: string;
  /** Whether the Assistant has a grant, which must be renewed in time. */
  readonly granted: boolean;
}

const REGISTERED = yes('Ready', 'It has a place of its own in the object store.');

/**
 * Registers the Assistant's token. The token is in its Secret before the broker hears of it, so that a crash at any
 * point does not lose it. A lost token is replaced, and the broker then retires the old one. Only the registered owner
 * of the id may call this.
 */
export async function ensureFiles(
  context: Context,
  broker: ObjectStoreBroker,
  { workload, objectStoreSecret: found, pods }: RunFacts,
  signal: AbortSignal,
): Promise<Step<FilesAccess>> {
  const { metadata, spec } = workload.assistant;
  const readKey = context.grantKey;
  const registered = isRegistered(found, metadata.uid);
  if (registered && !readKey) {
    // The grant was issued while the Space had a signing key.
    await withdrawGrant(context, { secret: found, pods }, signal);
    return { finding: REGISTERED, output: { tokenDigest: digestOf(found), granted: false } };
  }

  const { names } = context;
  const { capsule } = spec;
  const ref = { names, capsule, secretName: objectPrincipalSecretName(capsule) };
  const [claimed, principal] = await together([
    claimToken(context, workload, found, signal),
    readSecret(context, names.systemNamespace, ref.secretName, signal),
  ]);
  if (!principal?.data?.['principal'])
    return { finding: missingPrincipal(ref), retry: new Error('a principal is missing') };
  try {
    const { id } = workload.manifest.platform;
    const secret = registered
      ? claimed
      : await register(context, broker, { capsule, id, principal: principalOf(principal), claimed }, signal);
    const tokenDigest = digestOf(claimed);
    if (!readKey) return { finding: REGISTERED, output: { tokenDigest, granted: false } };
    const about = { capsule, app: id, principal: principalOf(principal), secret, pods };
    const { granted, failure } = await ensureGrant(context, { broker, readKey }, about, signal);
    return { finding: REGISTERED, output: { tokenDigest, granted }, ...failure };
  } catch (error) {
    return asPrincipalRefused(error, ref);
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
  const clear = new Secret(fromBase64(token));
  await broker.createApp(capsule, id, { principal, workload: clear }, signal);
  const annotations = { [ANNOTATION.registered]: sha256(token) };
  return context.writer.merge<SecretObject>(SECRET, claimed, { metadata: { annotations } }, signal);
}

const digestOf = (secret: SecretObject | undefined): string => sha256(secret?.data?.['token'] ?? '');

/**
 * The Secret with a token, created if it is missing. A Secret of an earlier Assistant with this id gets a new token and
 * owner.
 */
async function claimToken(
  context: Context,
  workload: Workload,
  found: SecretObject | undefined,
  signal: AbortSignal,
): Promise<SecretObject> {
  const fresh = { token: encode(newWorkloadPrincipal()) };
  if (!found) {
    const metadata = workloadMetadata(workload, workloadObjectsSecretName(workload.manifest.platform.id));
    return context.writer.create<SecretObject>(SECRET, { metadata, type: 'Opaque', data: fresh }, signal);
  }
  const { uid = '' } = workload.assistant.metadata;
  if (found.data?.['token'] && found.metadata.annotations?.[ANNOTATION.owner] === uid) return found;
  const { resourceVersion } = found.metadata;
  const patch = {
    metadata: { resourceVersion, annotations: { [ANNOTATION.owner]: uid, [ANNOTATION.registered]: null } },
    data: fresh,
  };
  return context.writer.merge<SecretObject>(SECRET, found, patch, signal);
}
