import { newPrincipal } from '../brokers/database.ts';
import { brokerFinding } from '../brokers/findings.ts';
import { type Finding, isTrue } from '../conditions.ts';
import type { Context } from '../context.ts';
import { CAPSULE, type Capsule, SECRET } from '../kinds.ts';
import { principalSecretName } from '../names.ts';
import { issuedPatch, rotationAsked, rotationEvent } from '../rotation.ts';
import { asBefore } from './decide.ts';
import { ensureLimits, standing, tellLimits } from './limits.ts';
import { encode, ensurePrincipal, type PrincipalKind, principalOf } from './principal.ts';

export interface DatabaseStep {
  readonly finding: Finding;
  /** What its databases hold, as the status tells it; undefined where nobody could ask. */
  readonly usage?: string;
  /** A broker's failure: told in the condition, and tried again. */
  readonly retry?: unknown;
}

/**
 * The principal is in its Secret before any broker hears of it, so that a crash at any line keeps it; the URL that
 * `provision` answers joins it there and is never mounted.
 */
export async function ensureDatabase(
  context: Context,
  capsule: Capsule,
  signal: AbortSignal,
): Promise<DatabaseStep> {
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
      return standing(context, capsule);
    }
    if (!isTrue(context.gate())) return { finding: asBefore(capsule, kind.condition) };
    const { name: id } = capsule.metadata;
    const url = encode(await context.database.provision(id, principalOf(secret), signal));
    const told = await tellLimits(context, capsule, signal);
    const { metadata, ...data } = issuedPatch(secret, { 'database-url': url }, rotation);
    const noted = { ...metadata, annotations: { ...metadata.annotations, ...told } };
    await context.writer.merge(SECRET, secret, { metadata: noted, ...data }, signal);
    if (known) {
      const event = rotationEvent(url !== known, 'No pod has either of them.', `rotate ${id}`);
      context.events.record(CAPSULE, capsule, event);
    }
    return standing(context, capsule);
  } catch (error) {
    const { names } = context;
    const { secretName } = kind;
    const finding = brokerFinding(error, { names, capsule: capsule.metadata.name, secretName });
    if (!finding) throw error;
    return { finding, retry: error };
  }
}
