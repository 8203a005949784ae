import { brokerFinding } from '../brokers/findings.ts';
import { newCapsulePrincipal, type ObjectStoreBroker } from '../brokers/objects.ts';
import { type Finding, yes } from '../conditions.ts';
import type { Context } from '../context.ts';
import { type Capsule, SECRET } from '../kinds.ts';
import { ANNOTATION, objectPrincipalSecretName } from '../names.ts';
import { ensurePrincipal, type PrincipalKind, principalOf } from './principal.ts';
import { bytesOf } from './quantity.ts';

export interface ObjectStoreStep {
  readonly finding: Finding;
  /** A broker's failure: told in the condition, and tried again. */
  readonly retry?: unknown;
}

const PROVISIONED = yes('Ready', 'The Capsule is known to the object-storage broker.');

function kindOf(capsule: Capsule): PrincipalKind {
  return {
    secretName: objectPrincipalSecretName(capsule.metadata.name),
    make: newCapsulePrincipal,
    forget: { annotations: { [ANNOTATION.provisioned]: null } },
  };
}

/** The Capsule and its quota are known to the broker; told again when the quota changes, and never else. */
export async function ensureObjectStore(
  context: Context,
  broker: ObjectStoreBroker,
  capsule: Capsule,
  signal: AbortSignal,
): Promise<ObjectStoreStep> {
  const kind = kindOf(capsule);
  const principal = await ensurePrincipal(context, capsule, kind, signal);
  if ('refused' in principal) return { finding: principal.refused };
  const { secret } = principal;
  const quota = bytesOf(capsule.spec.quota?.storage);
  const wanted = quota === undefined ? 'default' : String(quota);
  if (secret.metadata.annotations?.[ANNOTATION.provisioned] === wanted) return { finding: PROVISIONED };
  try {
    await broker.provision(capsule.metadata.name, principalOf(secret), quota, signal);
    const annotations = { [ANNOTATION.provisioned]: wanted };
    await context.writer.merge(SECRET, secret, { metadata: { annotations } }, signal);
    return { finding: PROVISIONED };
  } catch (error) {
    const { names } = context;
    const { secretName } = kind;
    const finding = brokerFinding(error, { names, capsule: capsule.metadata.name, secretName });
    if (!finding) throw error;
    return { finding, retry: error };
  }
}
