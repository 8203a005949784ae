import { newPrincipal } from '../brokers/database.ts';
import { brokerFinding } from '../brokers/findings.ts';
import { type Finding, yes } from '../conditions.ts';
import type { Context } from '../context.ts';
import { CAPSULE, type Capsule, SECRET } from '../kinds.ts';
import { principalSecretName } from '../names.ts';
import { issuedPatch, rotationAsked, rotationEvent } from '../rotation.ts';
import { encode, ensurePrincipal, type PrincipalKind, principalOf } from './principal.ts';

export interface DatabaseStep {
  readonly finding: Finding;
  /** A broker's failure: told in the condition, and tried again. */
  readonly retry?: unknown;
}

const PROVISIONED = yes('Ready', 'The Capsule is known to the database broker.');

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
    secretName: principalSecretName(capsule.metadata.name),
    make: newPrincipal,
    forget: { data: { 'database-url': null } },
  };
  const principal = await ensurePrincipal(context, capsule, kind, signal);
  if ('refused' in principal) return { finding: principal.refused };
  const { secret } = principal;
  const known = secret.data?.['database-url'];
  const rotation = rotationAsked(capsule, secret);
  if (known && rotation === undefined) return { finding: PROVISIONED };
  try {
    const { name: id } = capsule.metadata;
    const url = encode(await context.database.provision(id, principalOf(secret), signal));
    await context.writer.merge(
      SECRET,
      secret,
      issuedPatch(secret, { 'database-url': url }, rotation),
      signal,
    );
    if (known) {
      const event = rotationEvent(url !== known, 'No pod has either of them.', `rotate ${id}`);
      context.events.record(CAPSULE, capsule, event);
    }
    return { finding: PROVISIONED };
  } catch (error) {
    const { names } = context;
    const { secretName } = kind;
    const finding = brokerFinding(error, { names, capsule: capsule.metadata.name, secretName });
    if (!finding) throw error;
    return { finding, retry: error };
  }
}
