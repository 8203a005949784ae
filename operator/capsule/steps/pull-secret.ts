import { type Context, readCapsuleSecret, readSecret } from '../../context.ts';
import { CAPSULE, type Capsule, SECRET, type SecretObject } from '../../kinds.ts';
import { PULL_SECRET } from '../../names.ts';
import { fromBase64, toBase64 } from '../../runtime/base64.ts';
import type { CapsuleFacts } from '../facts.ts';
import { capsuleLabels } from '../guardrails.ts';

const TYPE = 'kubernetes.io/dockerconfigjson';
const KEY = '.dockerconfigjson';

/**
 * The kubelet takes registry credentials only from the pod's namespace. One Secret there contains those of all Secrets
 * in image.pullSecrets, so that one that is removed from the values, or deleted, leaves nothing behind.
 */
export async function ensurePullSecret(
  context: Context,
  { capsule, namespace }: CapsuleFacts,
  signal: AbortSignal,
): Promise<void> {
  const { names, writer } = context;
  // If no pull secret is configured, an older one may have to be deleted, but not in a namespace that was just created.
  const old = capsule.status?.conditions?.some(
    ({ type, status }) => type === 'NamespaceReady' && status === 'True',
  );
  if (!names.pullSecrets?.length && !old) return;
  const auths: Record<string, unknown> = {};
  for (const name of names.pullSecrets ?? []) {
    const source = await readSecret(context, names.systemNamespace, name, signal);
    // If two name the same registry, the first one counts.
    for (const [registry, auth] of Object.entries(authsOf(source))) auths[registry] ??= auth;
  }
  const wanted = Object.keys(auths).length > 0 ? toBase64(JSON.stringify({ auths })) : undefined;
  const found = await readCapsuleSecret(context, namespace, PULL_SECRET, signal);
  if (found?.data?.[KEY] === wanted && (!found || found.type === TYPE)) return;
  // The type of a Secret is immutable.
  if (found && (wanted === undefined || found.type !== TYPE)) await writer.remove(SECRET, found, signal);
  if (wanted === undefined) return tellRemoved(context, capsule);
  if (found?.type === TYPE) {
    const { resourceVersion } = found.metadata;
    await writer.merge(SECRET, found, { metadata: { resourceVersion }, data: { [KEY]: wanted } }, signal);
    return;
  }
  const labels = capsuleLabels(names, capsule.metadata.name);
  const metadata = { name: PULL_SECRET, namespace, labels };
  await writer.create(SECRET, { metadata, type: TYPE, data: { [KEY]: wanted } }, signal);
}

/** Returns credentials by registry; none for a Secret of another type or with other content. */
function authsOf(secret: SecretObject | undefined): Readonly<Record<string, unknown>> {
  if (secret?.type !== TYPE) return {};
  try {
    const text = fromBase64(secret.data?.[KEY] ?? '');
    const { auths } = JSON.parse(text) as { readonly auths?: Readonly<Record<string, unknown>> };
    return typeof auths === 'object' && auths !== null ? auths : {};
  } catch {
    return {};
  }
}

function tellRemoved({ events }: Context, capsule: Capsule): void {
  events.record(CAPSULE, capsule, {
    type: 'Warning',
    reason: 'PullSecretsRemoved',
    action: 'Remove',
    note: 'No Secret of image.pullSecrets has credentials any more, so the copy that images of this Capsule were pulled with is removed.',
  });
}
