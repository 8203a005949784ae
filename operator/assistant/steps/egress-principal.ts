import { randomBytes } from 'node:crypto';
import { type Context, readCapsuleSecret, readSecret } from '../../context.ts';
import { SECRET, type SecretObject } from '../../kinds.ts';
import { ANNOTATION, EGRESS_HOST, egressSecretName } from '../../names.ts';
import { fromBase64, toBase64 } from '../../runtime/base64.ts';
import { sha256 } from '../../runtime/digest.ts';
import { type Workload, workloadMetadata, workloadNamespace } from '../identity.ts';

const EGRESS_PROXY_PORT = 3128;

/** Ensures that the Secret with the Assistant's egress principal exists; returns the SHA-256 of the principal. */
export async function ensureEgressPrincipal(
  context: Context,
  workload: Workload,
  signal: AbortSignal,
): Promise<string> {
  const namespace = workloadNamespace(workload);
  const name = egressSecretName(workload.manifest.platform.id);
  const found = await readSecret(context, namespace, name, signal);
  const principal = ownPrincipal(found, workload);
  if (found && principal !== undefined) {
    const data = dataOf(principal);
    // Somebody may have changed or lost the one that tunnels are opened with, and no pod starts without it.
    if (found.data?.['HTTPS_PROXY'] !== data.HTTPS_PROXY)
      await context.writer.merge(SECRET, found, { metadata: versionOf(found), data }, signal);
    return sha256(principal);
  }
  // It belongs to an earlier Assistant with this id, whose principal this one must not have.
  if (found) await context.writer.remove(SECRET, found, signal);
  const fresh = `spc_egr_${randomBytes(32).toString('base64url')}`;
  await context.writer.create<SecretObject>(
    SECRET,
    {
      metadata: workloadMetadata(workload, name),
      type: 'Opaque',
      data: dataOf(fresh),
    },
    signal,
  );
  return sha256(fresh);
}

/** The SHA-256 of the principal that the Assistant has; undefined if it has none. */
export async function readEgressPrincipal(
  context: Context,
  workload: Workload,
  signal: AbortSignal,
): Promise<string | undefined> {
  const name = egressSecretName(workload.manifest.platform.id);
  const found = await readCapsuleSecret(context, workloadNamespace(workload), name, signal);
  const principal = ownPrincipal(found, workload);
  return principal === undefined ? undefined : sha256(principal);
}

function ownPrincipal(found: SecretObject | undefined, { assistant }: Workload): string | undefined {
  const known = found?.data?.['EGRESS_TOKEN'];
  const isOwn = found?.metadata.annotations?.[ANNOTATION.owner] === (assistant.metadata.uid ?? '');
  return known !== undefined && isOwn ? fromBase64(known) : undefined;
}

const dataOf = (principal: string) => ({
  EGRESS_TOKEN: toBase64(principal),
  HTTPS_PROXY: toBase64(`http://egr:${principal}@${EGRESS_HOST}:${EGRESS_PROXY_PORT}`),
});

const versionOf = ({ metadata: { resourceVersion } }: SecretObject) => ({ resourceVersion });
