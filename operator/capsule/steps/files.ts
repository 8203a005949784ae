import { BrokerError } from '@space/contracts/client';
import type { Secret } from '@space/contracts/secret';
import { brokerFinding, isForbidden, type PrincipalRef, principalFinding } from '../../brokers/findings.ts';
import { newCapsulePrincipal, type ObjectStoreBroker, type ObjectsUsage } from '../../brokers/objects.ts';
import { type Finding, isTrue, type Reason, unknown, yes } from '../../conditions.ts';
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
import { isTrouble, troubleBefore } from '../usages.ts';
import { USAGE_SOON_MS } from './limits.ts';

const PROVISIONED = yes('Ready', 'The Capsule is known to the object-storage broker.');

/** Only for a moment: the console would be refused the principal. */
const UNNAMED = unknown('Waiting', 'Waits until the Role of the console names the principal.');

/** What an operator before this one was told, and this one believes until it has asked. */
const TOLD: ReadonlySet<Reason> = new Set(['BrokerRefused']);

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
  const told = () => ({
    finding: refusedFinding(context, capsule) ?? (isDone ? PROVISIONED : UNNAMED),
    output: shownUsage(context, capsule),
  });
  if (secret.metadata.annotations?.[ANNOTATION.provisioned] === wanted) {
    const isRefused = refusedFinding(context, capsule) !== undefined;
    const isTold = !isRefused && capsule.status?.usage?.storage !== undefined;
    const believedMs = isRefused ? USAGE_SOON_MS / 2 : USAGE_MS;
    if (context.objectUsages.isDue(capsule.metadata.uid ?? '', believedMs, isTold))
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
  { objectUsages: usages, names, log }: Context,
  broker: ObjectStoreBroker,
  { metadata: { name, uid = '' } }: Capsule,
  principal: Secret,
  signal: AbortSignal,
): Promise<void> {
  const ref = { names, capsule: name, secretName: objectPrincipalSecretName(name) };
  try {
    usages.note(uid, await orRefusal(broker.usage(name, principal, signal), ref));
  } catch (error) {
    if (!(error instanceof BrokerError)) throw error;
    log.debug({ capsule: name, err: error }, 'what the objects take could not be asked');
    usages.note(uid);
  }
}

/** Nothing else is asked with the principal of a Capsule that is provisioned, so it is here that its end is noticed. */
function orRefusal(asked: Promise<ObjectsUsage>, ref: PrincipalRef): Promise<ObjectsUsage | Finding> {
  return asked.catch((error: unknown) => {
    const finding = isForbidden(error) && principalFinding(error, ref);
    if (!finding) throw error;
    return finding;
  });
}

function refusedFinding({ objectUsages }: Context, { metadata, status }: Capsule): Finding | undefined {
  const heard = objectUsages.last(metadata.uid ?? '');
  if (heard === undefined) return troubleBefore(status?.conditions, 'ObjectStoreReady', TOLD);
  return isTrouble(heard) ? heard : undefined;
}

function shownUsage({ objectUsages }: Context, capsule: Capsule): string | undefined {
  const usage = objectUsages.last(capsule.metadata.uid ?? '');
  return usage === undefined || isTrouble(usage)
    ? undefined
    : coarse(usage, bytesOf(capsule.status?.usage?.storage));
}
