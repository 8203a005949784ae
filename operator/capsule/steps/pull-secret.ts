import { type Context, readSecret } from '../../context.ts';
import { CAPSULE, type Capsule, SECRET, type SecretObject } from '../../kinds.ts';
import { PULL_SECRET } from '../../names.ts';
import type { CapsuleFacts } from '../facts.ts';
import { capsuleLabels } from '../guardrails.ts';

const TYPE = 'kubernetes.io/dockerconfigjson';
const KEY = '.dockerconfigjson';

/**
 * The kubelet takes credentials of registries from the pod's own namespace alone. One Secret there holds what all of
 * image.pullSecrets say, so that one that is taken out of the values, or deleted, leaves nothing behind.
 */
export async function ensurePullSecret(
  context: Context,
  { capsule, namespace }: CapsuleFacts,
  signal: AbortSignal,
): Promise<void> {
  const { names, writer } = context;
  // Where none is named there may be one of before, but not in a namespace that was made just now.
  const old = capsule.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True');
  if (!names.pullSecrets?.length && !old) return;
  const auths: Record<string, unknown> = {};
  for (const name of names.pullSecrets ?? []) {
    const source = await readSecret(context, names.systemNamespace, name, signal);
    // The first of two that name one registry counts.
    for (const [registry, auth] of Object.entries(authsOf(source))) auths[registry] ??= auth;
  }
  const wanted = Object.keys(auths).length > 0 ? encode({ auths }) : undefined;
  const found = await readSecret(context, namespace, PULL_SECRET, signal);
  if (found?.data?.[KEY] === wanted && (!found || found.type === TYPE)) return;
  // A Secret's type cannot be changed.
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

/** Returns credentials by registry, and none for a Secret of another type or with other content. */
function authsOf(secret: SecretObject | undefined): Readonly<Record<string, unknown>> {
  if (secret?.type !== TYPE) return {};
  try {
    const text = Buffer.from(secret.data?.[KEY] ?? '', 'base64').toString('utf8');
    const { auths } = JSON.parse(text) as { readonly auths?: Readonly<Record<string, unknown>> };
    return typeof auths === 'object' && auths !== null ? auths : {};
  } catch {
    return {};
  }
}

const encode = (value: unknown): string => Buffer.from(JSON.stringify(value), 'utf8').toString('base64');

function tellRemoved({ events }: Context, capsule: Capsule): void {
  events.record(CAPSULE, capsule, {
    type: 'Warning',
    reason: 'PullSecretsRemoved',
    action: 'Remove',
    note: 'No Secret of image.pullSecrets says anything any more, so the copy that images of this Capsule were pulled with is taken away.',
  });
}
