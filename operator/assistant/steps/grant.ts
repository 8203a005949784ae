import { Secret } from '@space/contracts/secret';
import { asPrincipalRefused } from '../../brokers/findings.ts';
import type { ObjectStoreBroker } from '../../brokers/objects.ts';
import { encode } from '../../capsule/principal.ts';
import { type Finding, no } from '../../conditions.ts';
import type { Context } from '../../context.ts';
import { ageOf, claimsOf, type Subject } from '../../grants/mint.ts';
import { type GrantKey, GrantKeyError } from '../../grants/sign.ts';
import { POD, type Pod, SECRET, type SecretObject } from '../../kinds.ts';
import { ANNOTATION, objectPrincipalSecretName } from '../../names.ts';
import type { Refused } from '../../refusals.ts';
import { fromBase64 } from '../../runtime/base64.ts';
import { ApiError } from '../../runtime/errors.ts';
import { hasEnded } from '../pods.ts';

/**
 * The greatest age of the selection that grants are made for: in a Capsule that has selected a set, and in one that has
 * not.
 */
export const GRANTED_MS = 10_000;
export const UNGRANTED_MS = 60_000;

interface GrantOutcome {
  readonly granted: boolean;
  readonly failure?: Refused;
}

/** What a grant is made with: the broker that knows the selection, and the key that signs. */
interface Issuer {
  readonly broker: ObjectStoreBroker;
  readonly readKey: () => Promise<GrantKey>;
}

interface About {
  readonly capsule: string;
  readonly app: string;
  /** The Capsule's principal. */
  readonly principal: Secret;
  /** The Assistant's Secret with its token and, if it has one, its grant. */
  readonly secret: SecretObject;
  /** The Assistant's pods. */
  readonly pods: readonly Pod[];
}

/**
 * Keeps the grant in the Secret with the Assistant's token, for the credential set that its Capsule has selected and
 * the generation of that set. Without a selection there is no grant. The operator never sees the credentials
 * themselves.
 */
export async function ensureGrant(
  context: Context,
  { broker, readKey }: Issuer,
  about: About,
  signal: AbortSignal,
): Promise<GrantOutcome> {
  const { capsule, app, principal, secret } = about;
  try {
    const ask = (whole: AbortSignal) => broker.selection(capsule, principal, whole);
    const selection = await context.selections.get(capsule, GRANTED_MS, ask, signal);
    if (selection === undefined) {
      // The first selection must take effect at the next reconcile.
      context.selections.forget(capsule);
      await withdrawGrant(context, about, signal);
      return { granted: false };
    }
    const { grant: before, token: encoded = '' } = secret.data ?? {};
    const token = new Secret(fromBase64(encoded));
    const subject: Subject = { space: context.names.space, capsule, app, token, selection };
    const key = await readKey();
    const now = new Date(context.now());
    const age = before === undefined ? 'stale' : ageOf(fromBase64(before), key.kid, subject, now);
    if (age === 'fresh') return { granted: true };
    const grant = encode(new Secret(await key.sign(claimsOf(subject, now))));
    const written = await write(context, secret, grant, signal);
    if (age === 'stale') await annotatePods(context, about.pods, written, signal);
    return { granted: true };
  } catch (error) {
    if (error instanceof GrantKeyError)
      return { granted: false, failure: { finding: unsigned(context, error), retry: error } };
    const secretName = objectPrincipalSecretName(capsule);
    const failure = asPrincipalRefused(error, { names: context.names, capsule, secretName });
    return { granted: false, failure };
  }
}

/** An earlier grant stays, and the broker goes by it until it has expired. */
const unsigned = ({ names }: Context, { problem }: GrantKeyError): Finding =>
  no(
    'GrantKeyUnusable',
    `Its Capsule has selected a credential set, and no grant for that can be signed: the operator's signing key ${problem}. It is "key" of Secret "objectstore-grants" in namespace "${names.systemNamespace}", unless existingSecrets.objectStoreGrants of the chart names another Secret. Restore that from a backup, or exchange the key (docs/rotation.md, "The key that grants are signed with"). This Assistant then continues by itself within some minutes.`,
  );

/** Removes the grant, if there is one. */
export async function withdrawGrant(
  context: Context,
  { secret, pods }: Pick<About, 'secret' | 'pods'>,
  signal: AbortSignal,
): Promise<void> {
  if (secret.data?.['grant'] === undefined) return;
  await annotatePods(context, pods, await write(context, secret, null, signal), signal);
}

/** Writes only over the version that was read, since the token may be exchanged at the same time. */
function write(
  context: Context,
  secret: SecretObject,
  grant: string | null,
  signal: AbortSignal,
): Promise<SecretObject> {
  const { resourceVersion } = secret.metadata;
  return context.writer.merge(SECRET, secret, { metadata: { resourceVersion }, data: { grant } }, signal);
}

/**
 * The kubelet refreshes mounted Secrets about once a minute, and at once when the pod is changed. Without the
 * annotation the grant only arrives later.
 */
async function annotatePods(
  context: Context,
  pods: readonly Pod[],
  { metadata: { resourceVersion } }: SecretObject,
  signal: AbortSignal,
): Promise<void> {
  const annotations = { [ANNOTATION.granted]: resourceVersion };
  for (const pod of pods) {
    const { uid, deletionTimestamp } = pod.metadata;
    if (deletionTimestamp !== undefined || hasEnded(pod)) continue;
    try {
      await context.writer.merge(POD, pod, { metadata: { uid, annotations } }, signal);
    } catch (error) {
      // The pod is gone, or another pod has its name.
      if (error instanceof ApiError && (error.status === 404 || error.status === 409)) continue;
      context.log.warn({ err: error }, 'a grant will reach its pod late');
    }
  }
}
