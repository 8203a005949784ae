import { newPrincipal } from '../../brokers/database.ts';
import { asBrokerRefused } from '../../brokers/findings.ts';
import { isTrue } from '../../conditions.ts';
import type { Context } from '../../context.ts';
import { CAPSULE, SECRET } from '../../kinds.ts';
import { principalSecretName } from '../../names.ts';
import { issuedPatch, rotationAsked, rotationEvent } from '../../rotation.ts';
import type { Step } from '../../step.ts';
import { asBefore } from '../decide.ts';
import type { CapsuleFacts } from '../facts.ts';
import { encode, ensurePrincipal, type PrincipalKind, principalOf } from '../principal.ts';
import { ensureLimits, knownUsage, tellLimits } from './limits.ts';

/**
 * Provisions the Capsule at the database broker. The principal is in its Secret before the broker hears of it, so that
 * a crash at any point does not lose it; the URL from the broker is stored beside it and never mounted. The output is
 * the size of the Capsule's databases for the status, undefined if it is unknown.
 */
export async function ensureDatabase(
  context: Context,
  { capsule }: CapsuleFacts,
  signal: AbortSignal,
): Promise<Step<string>> {
  const kind: PrincipalKind = {
    condition: 'DatabaseReady',
    secretName: principalSecretName(capsule.metadata.name),
    make: newPrincipal,
    forget: { data: { 'database-url': null } },
  };
  const principal = await ensurePrincipal(context, capsule, kind, signal);
  if ('refused' in principal) return { finding: principal.refused };
  const { secret } = principal;
  const known = secret.data?.['database-url'];
  const rotation = rotationAsked(capsule, secret);
  try {
    if (known && rotation === undefined) {
      await ensureLimits(context, capsule, secret, signal);
      return knownUsage(context, capsule);
    }
    if (!isTrue(context.gate())) return { finding: asBefore(capsule, kind.condition) };
    const { name: id } = capsule.metadata;
    const url = encode(await context.database.provision(id, principalOf(secret), signal));
    const annotations = await tellLimits(context, capsule, signal);
    const { metadata, ...data } = issuedPatch(secret, { 'database-url': url }, rotation);
    const noted = { ...metadata, annotations: { ...metadata.annotations, ...annotations } };
    await context.writer.merge(SECRET, secret, { metadata: noted, ...data }, signal);
    if (known) {
      const event = rotationEvent(url !== known, 'No pod has either of them.', `rotate ${id}`);
      context.events.record(CAPSULE, capsule, event);
    }
    return knownUsage(context, capsule);
  } catch (error) {
    const { names } = context;
    const { secretName } = kind;
    return asBrokerRefused(error, { names, capsule: capsule.metadata.name, secretName });
  }
}
