import { brokerFinding } from '../brokers/findings.ts';
import { encode, principalOf } from '../capsule/database.ts';
import { type Finding, no, yes } from '../conditions.ts';
import { type Context, readSecret } from '../context.ts';
import { SECRET, type SecretObject } from '../kinds.ts';
import { ANNOTATION, principalSecretName, workloadSecretName } from '../names.ts';
import { sha256 } from '../runtime/digest.ts';
import { isAlreadyExists } from '../runtime/errors.ts';
import { type Workload, workloadLabels, workloadNamespace } from './workload.ts';

export interface DatabaseStep {
  readonly finding: Finding;
  readonly urlDigest?: string;
  readonly retry?: unknown;
}

const PROVISIONED = yes('Ready', 'It has a database of its own.');

/** UID of the Assistant that an id's Secret, and with it its database, belongs to. */
export function registeredOwner(secret: SecretObject | undefined): string | undefined {
  return secret?.metadata.annotations?.[ANNOTATION.owner];
}

/**
 * The Secret is claimed by name before the broker hears of the id, so that a crash leaves a record of who owns what
 * may have been made; the URL joins it afterwards.
 */
export async function ensureDatabase(
  context: Context,
  workload: Workload,
  claimed: SecretObject | undefined,
  signal: AbortSignal,
): Promise<DatabaseStep> {
  const secret = claimed ?? (await claim(context, workload, signal));
  if (!secret)
    return {
      finding: no('DuplicateIdentifier', 'Another Assistant took the id at the same moment.'),
      retry: new Error('lost the race for an id'),
    };
  const known = secret.data?.['DATABASE_URL'];
  if (known) return { finding: PROVISIONED, urlDigest: sha256(known) };

  const { capsule } = workload.assistant.spec;
  const name = principalSecretName(capsule);
  const principal = await readSecret(context, context.names.namespace, name, signal);
  if (!principal?.data?.['principal']) {
    const finding = no(
      'PrincipalLost',
      `Secret "${name}" with the Capsule's principal is missing. Put it back from a backup.`,
    );
    return { finding, retry: new Error('a principal is missing') };
  }
  try {
    const { id } = workload.manifest.platform;
    const url = encode(await context.database.createApp(capsule, id, principalOf(principal), signal));
    await context.writer.merge(SECRET, secret, { data: { DATABASE_URL: url } }, signal);
    return { finding: PROVISIONED, urlDigest: sha256(url) };
  } catch (error) {
    const finding = brokerFinding(error);
    if (!finding) throw error;
    return { finding, retry: error };
  }
}

async function claim(
  context: Context,
  workload: Workload,
  signal: AbortSignal,
): Promise<SecretObject | undefined> {
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
