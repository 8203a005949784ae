import { BrokerError } from '@space/contracts/client';
import type { Secret } from '@space/contracts/secret';
import { brokerFinding } from '../../brokers/findings.ts';
import { newCapsulePrincipal, type ObjectStoreBroker } from '../../brokers/objects.ts';
import { isTrue, unknown, yes } from '../../conditions.ts';
import type { Context } from '../../context.ts';
import { type Capsule, SECRET } from '../../kinds.ts';
import { ANNOTATION, objectPrincipalSecretName } from '../../names.ts';
import type { Step } from '../../step.ts';
import { coarse, USAGE_MS } from '../coarse.ts';
import { readableIn } from '../console-role.ts';
import { asBefore } from '../decide.ts';
import type { CapsuleFacts } from '../facts.ts';
import { ensurePrincipal, type PrincipalKind, principalOf } from '../principal.ts';
import { bytesOf } from '../quantity.ts';

const PROVISIONED = yes('Ready', 'The Capsule is known to the object-storage broker.');

/** Only for a moment: the console would be refused the principal. */
const UNNAMED = unknown('Waiting', 'Waits until the Role of the console names the principal.');

function kindOf(capsule: Capsule): PrincipalKind {
  return {
    condition: 'ObjectStoreReady',
    secretName: objectPrincipalSecretName(capsule.metadata.name),
    make: newCapsulePrincipal,
    forget: { annotations: { [ANNOTATION.provisioned]: null } },
  };
}

/**
 * The Capsule and its quota are known to the broker, told again when the quota changes; asked what is used at a sweep. Its
 * output is what counts against the quota, as the status tells it; nothing where nobody could ask.
 */
export async function ensureFiles(
  context: Context,
  broker: ObjectStoreBroker,
  { capsule, wereTrue }: CapsuleFacts,
  signal: AbortSignal,
): Promise<Step<string>> {
  const kind = kindOf(capsule);
  const principal = await ensurePrincipal(context, capsule, kind, signal);
  if ('refused' in principal) return { finding: principal.refused };
  const { secret } = principal;
  const quota = bytesOf(capsule.spec.quota?.storage);
  const wanted = quota === undefined ? 'default' : String(quota);
  const [consoleRole] = context.stores.roles.list();
  const isDone = wereTrue.has(kind.condition) || readableIn(consoleRole)(capsule);
  const told = () => ({ finding: isDone ? PROVISIONED : UNNAMED, output: shownUsage(context, capsule) });
  if (secret.metadata.annotations?.[ANNOTATION.provisioned] === wanted) {
    const isTold = capsule.status?.usage?.storage !== undefined;
    if (context.objectUsages.isDue(capsule.metadata.uid ?? '', USAGE_MS, isTold))
      await askUsage(context, broker, capsule, principalOf(secret), signal);
    return told();
  }
  if (!isTrue(context.gate())) return { finding: asBefore(capsule, kind.condition) };
  try {
    await broker.provision(capsule.metadata.name, principalOf(secret), quota, signal);
    const annotations = { [ANNOTATION.provisioned]: wanted };
    await context.writer.merge(SECRET, secret, { metadata: { annotations } }, signal);
    await askUsage(context, broker, capsule, principalOf(secret), signal);
    return told();
  } catch (error) {
    const { names } = context;
    const { secretName } = kind;
    const finding = brokerFinding(error, { names, capsule: capsule.metadata.name, secretName });
    if (!finding) throw error;
    return { finding, retry: error };
  }
}

/** A broker that is away for a moment changes nothing of what was heard before. */
async function askUsage(
  { objectUsages: usages, log }: Context,
  broker: ObjectStoreBroker,
  { metadata: { name, uid = '' } }: Capsule,
  principal: Secret,
  signal: AbortSignal,
): Promise<void> {
  try {
    usages.note(uid, await broker.usage(name, principal, signal));
  } catch (error) {
    if (!(error instanceof BrokerError)) throw error;
    log.debug({ capsule: name, err: error }, 'what the objects take could not be asked');
    usages.note(uid);
  }
}

function shownUsage({ objectUsages }: Context, capsule: Capsule): string | undefined {
  const usage = objectUsages.last(capsule.metadata.uid ?? '');
  return usage && coarse(usage, bytesOf(capsule.status?.usage?.storage));
}
