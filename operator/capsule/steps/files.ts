import { BrokerError } from '@space/contracts/client';
import { asBrokerRefused, isForbidden, principalFinding } from '../../brokers/findings.ts';
import { newCapsulePrincipal, type ObjectStoreBroker, type ObjectsUsage } from '../../brokers/objects.ts';
import { type Finding, isTrue, type Reason, unknown, yes } from '../../conditions.ts';
import type { Context } from '../../context.ts';
import { type Capsule, SECRET } from '../../kinds.ts';
import { ANNOTATION, objectPrincipalSecretName } from '../../names.ts';
import type { Step } from '../../step.ts';
import { coarse, USAGE_MS } from '../coarse.ts';
import { readableIn } from '../console-role.ts';
import { asBefore, wasTrue } from '../decide.ts';
import type { CapsuleFacts } from '../facts.ts';
import { ensurePrincipal, type PrincipalKind, principalOf } from '../principal.ts';
import { bytesOf } from '../quantity.ts';
import { isTrouble, troubleBefore } from '../usages.ts';
import { USAGE_SOON_MS } from './limits.ts';

const PROVISIONED = yes('Ready', 'The Capsule is known to the object-storage broker.');

/** This lasts only a moment; until then the console would not be permitted to read the principal. */
const UNNAMED = unknown('Waiting', 'Waits until the Role of the console names the principal.');

/** Reasons that stay in the condition after a restart of the operator until the broker has been asked again. */
const KEPT_REASONS: ReadonlySet<Reason> = new Set(['BrokerRefused']);

function kindOf(capsule: Capsule): PrincipalKind {
  return {
    condition: 'ObjectStoreReady',
    secretName: objectPrincipalSecretName(capsule.metadata.name),
    make: newCapsulePrincipal,
    forget: { annotations: { [ANNOTATION.provisioned]: null } },
  };
}

/**
 * Registers the Capsule and its quota at the object-storage broker, again when the quota changes, and reads the usage
 * at each sweep. The output is what counts against the quota, for the status; undefined if it is unknown.
 */
export async function ensureFiles(
  context: Context,
  broker: ObjectStoreBroker,
  { capsule }: CapsuleFacts,
  signal: AbortSignal,
): Promise<Step<string>> {
  const kind = kindOf(capsule);
  const principal = await ensurePrincipal(context, capsule, kind, signal);
  if ('refused' in principal) return { finding: principal.refused };
  const { secret } = principal;
  const { name } = capsule.metadata;
  const quota = bytesOf(capsule.spec.quota?.storage);
  const wanted = quota === undefined ? 'default' : String(quota);
  const [consoleRole] = context.stores.roles.list();
  const isDone = wasTrue(capsule, kind.condition) || readableIn(consoleRole)(capsule);
  const result = () => ({
    finding: refusedFinding(context, capsule) ?? (isDone ? PROVISIONED : UNNAMED),
    output: shownUsage(context, capsule),
  });
  if (secret.metadata.annotations?.[ANNOTATION.provisioned] === wanted) {
    const isRefused = refusedFinding(context, capsule) !== undefined;
    const isInStatus = !isRefused && capsule.status?.usage?.storage !== undefined;
    const freshMs = isRefused ? USAGE_SOON_MS / 2 : USAGE_MS;
    if (context.objectUsages.isDue(capsule.metadata.uid ?? '', freshMs, isInStatus))
      await noteUsage(context, capsule, broker.usage(name, principalOf(secret), signal));
    // A registry that was set back has the quota of then, until it has taken this one.
    if (hasQuota(context, capsule, quota)) return result();
  }
  if (!isTrue(context.gate())) return { finding: asBefore(capsule, kind.condition) };
  try {
    await broker.provision(name, principalOf(secret), quota, signal);
    const annotations = { [ANNOTATION.provisioned]: wanted };
    await context.writer.merge(SECRET, secret, { metadata: { annotations } }, signal);
    await noteUsage(context, capsule, broker.usage(name, principalOf(secret), signal));
    return result();
  } catch (error) {
    return asBrokerRefused(error, { names: context.names, capsule: name, secretName: kind.secretName });
  }
}

/**
 * Notes the usage that the broker answers with; if it is unavailable, the last answer stays. No other call uses the
 * principal of a Capsule that is provisioned, so this one detects that it was retired.
 */
async function noteUsage(
  { objectUsages: usages, names, log }: Context,
  { metadata: { name, uid = '' } }: Capsule,
  asked: Promise<ObjectsUsage>,
): Promise<void> {
  try {
    usages.note(uid, await asked);
  } catch (error) {
    if (!(error instanceof BrokerError)) throw error;
    const ref = { names, capsule: name, secretName: objectPrincipalSecretName(name) };
    const refused = isForbidden(error) ? principalFinding(error, ref) : undefined;
    if (!refused) log.debug({ capsule: name, err: error }, 'the usage of the objects could not be read');
    usages.note(uid, refused);
  }
}

function refusedFinding({ objectUsages }: Context, { metadata, status }: Capsule): Finding | undefined {
  const answer = objectUsages.last(metadata.uid ?? '');
  if (answer === undefined) return troubleBefore(status?.conditions, 'ObjectStoreReady', KEPT_REASONS);
  return isTrouble(answer) ? answer : undefined;
}

/** Whether the broker has this quota, as far as it has said. */
function hasQuota({ objectUsages }: Context, { metadata }: Capsule, quota: number | undefined): boolean {
  const usage = objectUsages.last(metadata.uid ?? '');
  return quota === undefined || usage === undefined || isTrouble(usage) || usage.limitBytes === quota;
}

function shownUsage({ objectUsages }: Context, capsule: Capsule): string | undefined {
  const usage = objectUsages.last(capsule.metadata.uid ?? '');
  return usage === undefined || isTrouble(usage)
    ? undefined
    : coarse(usage, bytesOf(capsule.status?.usage?.storage));
}
