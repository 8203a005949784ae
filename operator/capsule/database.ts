import { newPrincipal } from '../brokers/database.ts';
import { brokerFinding } from '../brokers/findings.ts';
import { type Finding, yes } from '../conditions.ts';
import { type Context, readSecret } from '../context.ts';
import { CAPSULE, type Capsule, SECRET, type SecretObject } from '../kinds.ts';
import { ANNOTATION, LABEL, principalSecretName } from '../names.ts';
import { issuedPatch, rotationAsked, rotationEvent } from '../rotation.ts';
import { decidePrincipal } from './decide.ts';
import { capsuleLabels } from './guardrails.ts';
import { encode, principalOf } from './principal.ts';

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
  const { namespace, name } = {
    namespace: context.names.namespace,
    name: principalSecretName(capsule.metadata.name),
  };
  let secret = await readSecret(context, namespace, name, signal);
  let verdict = decidePrincipal(capsule, secret);
  if (verdict.act === 'create') secret = await createPrincipal(context, capsule, signal);
  if (verdict.act === 'adopt' && secret) secret = await adoptPrincipal(context, capsule, secret, signal);
  verdict = decidePrincipal(capsule, secret);
  if (verdict.act === 'refuse') return { finding: verdict.finding };
  const rotation = rotationAsked(capsule, secret);
  if (!secret || (verdict.act === 'keep' && rotation === undefined)) return { finding: PROVISIONED };
  try {
    const { name: id } = capsule.metadata;
    const url = encode(await context.database.provision(id, principalOf(secret), signal));
    const known = secret.data?.['database-url'];
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
    const finding = brokerFinding(error);
    if (!finding) throw error;
    return { finding, retry: error };
  }
}

function createPrincipal(context: Context, capsule: Capsule, signal: AbortSignal): Promise<SecretObject> {
  const { name, uid = '' } = capsule.metadata;
  return context.writer.create<SecretObject>(
    SECRET,
    {
      metadata: {
        name: principalSecretName(name),
        namespace: context.names.namespace,
        labels: capsuleLabels(context.names, name),
        annotations: { [ANNOTATION.owner]: uid },
      },
      type: 'Opaque',
      data: { principal: encode(newPrincipal()) },
    },
    signal,
  );
}

/** A retained principal goes over to the new Capsule of its name, in one write. */
function adoptPrincipal(
  context: Context,
  capsule: Capsule,
  secret: SecretObject,
  signal: AbortSignal,
): Promise<SecretObject> {
  return context.writer.merge<SecretObject>(
    SECRET,
    secret,
    {
      metadata: {
        resourceVersion: secret.metadata.resourceVersion,
        labels: { [LABEL.retained]: null },
        annotations: { [ANNOTATION.owner]: capsule.metadata.uid },
      },
      // It is asked for again, which proves that the broker still takes this principal.
      data: { 'database-url': null },
    },
    signal,
  );
}
