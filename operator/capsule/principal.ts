import { Secret } from '@space/contracts/secret';
import { type Finding, isTrue } from '../conditions.ts';
import { type Context, readSecret } from '../context.ts';
import { CAPSULE, type Capsule, SECRET, type SecretObject } from '../kinds.ts';
import { requireAlive } from '../last-word.ts';
import { ANNOTATION, CAPSULE_FINALIZER, LABEL, type SpaceNames } from '../names.ts';
import { fromBase64, toBase64 } from '../runtime/base64.ts';
import { asBefore, decidePrincipal } from './decide.ts';
import { capsuleLabels } from './guardrails.ts';

/** One broker's principal of a Capsule. */
export interface PrincipalKind {
  readonly condition: 'DatabaseReady' | 'ObjectStoreReady';
  readonly secretName: string;
  readonly make: () => Secret;
  /**
   * Fields of the Secret that are cleared when a new Capsule of the name takes it over, so that the broker is called
   * again.
   */
  readonly forget: {
    readonly data?: Readonly<Record<string, null>>;
    readonly annotations?: Readonly<Record<string, null>>;
  };
}

/**
 * Ensures that the principal is in its Secret before any broker hears of it, so that a crash at any point does not lose
 * it. A retained Secret is handed over to the new Capsule of its name in one write.
 */
export async function ensurePrincipal(
  context: Context,
  capsule: Capsule,
  kind: PrincipalKind,
  signal: AbortSignal,
): Promise<{ readonly secret: SecretObject } | { readonly refused: Finding }> {
  const { names, writer } = context;
  let secret = await readSecret(context, names.systemNamespace, kind.secretName, signal);
  const { act } = decidePrincipal(capsule, secret);
  const begins = act === 'create' || act === 'adopt';
  if (begins && !isTrue(context.gate())) return { refused: asBefore(capsule, kind.condition) };
  if (begins) await requireAlive(context, { resource: CAPSULE, name: CAPSULE_FINALIZER }, capsule, signal);
  if (act === 'create')
    secret = await writer.create<SecretObject>(SECRET, principalObject(names, capsule, kind), signal);
  if (act === 'adopt' && secret)
    secret = await writer.merge<SecretObject>(SECRET, secret, adoptionPatch(capsule, kind, secret), signal);
  const verdict = decidePrincipal(capsule, secret);
  if (verdict.act === 'refuse') return { refused: verdict.finding };
  if (!secret) throw new Error('a principal that was made is missing');
  return { secret };
}

/** The Capsule's principal from its Secret. One that a person restored from a file may end with a newline. */
export function principalOf(secret: SecretObject): Secret {
  return new Secret(fromBase64(secret.data?.['principal'] ?? '').trim());
}

export function encode(secret: Secret): string {
  return toBase64(secret.reveal());
}

/** The Secret of a new principal. */
function principalObject(names: SpaceNames, { metadata }: Capsule, { secretName, make }: PrincipalKind) {
  return {
    metadata: {
      name: secretName,
      namespace: names.systemNamespace,
      labels: capsuleLabels(names, metadata.name),
      annotations: { [ANNOTATION.owner]: metadata.uid ?? '' },
    },
    type: 'Opaque',
    data: { principal: encode(make()) },
  };
}

/** The change that hands a retained principal over. It applies only to the version of the Secret that was read. */
function adoptionPatch({ metadata }: Capsule, { forget }: PrincipalKind, secret: SecretObject) {
  return {
    metadata: {
      resourceVersion: secret.metadata.resourceVersion,
      labels: { [LABEL.retained]: null },
      annotations: {
        [ANNOTATION.owner]: metadata.uid,
        [ANNOTATION.finalized]: null,
        ...forget.annotations,
      },
    },
    ...(forget.data ? { data: forget.data } : {}),
  };
}
