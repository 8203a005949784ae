import { Secret } from '@space/contracts/secret';
import { LONGEST_VALUE, type Manifest } from '@space/manifests';
import { type Finding, no } from '../../conditions.ts';
import { type Context, readSecret } from '../../context.ts';
import type { Assistant, SecretObject } from '../../kinds.ts';
import { ANNOTATION, LABEL, STORED_INPUT_TYPE } from '../../names.ts';

/** The value of a stored input, and the version of the Secret that it was read from. */
export interface StoredInput {
  readonly secret: string;
  /** The key in the Secret. */
  readonly at: string;
  readonly uid: string;
  readonly resourceVersion: string;
  /** What the value was entered for, if the Secret says so. */
  readonly entry: string | undefined;
  readonly value: Secret;
  /** Whether the value was compared with the sealed one and differs. */
  readonly changed?: boolean;
}

/** Why there is no value. */
export interface Problem extends Finding {
  /** Whether somebody has entered one, which cannot be used. */
  readonly isEntered?: boolean;
}

export interface StoredInputs {
  /** Values that could be read, by the manifest's key. */
  readonly values: ReadonlyMap<string, StoredInput>;
  /** The reasons for missing values, by the manifest's key. */
  readonly problems: ReadonlyMap<string, Problem>;
}

/** Control characters, which a header line cannot carry; the usual mistake is a newline at the end. */
const CONTROL = /\p{Cc}/u;

/**
 * Reads the values of a manifest's stored inputs, each from the Secret that the Assistant names. A Secret that was not
 * made as a stored input for this Capsule is never read, whoever names it.
 */
export async function readStoredInputs(
  context: Pick<Context, 'client' | 'names'>,
  assistant: Assistant,
  manifest: Manifest,
  signal: AbortSignal,
): Promise<StoredInputs> {
  const keys = Object.keys(manifest.stored_inputs ?? {});
  const unbound = keys.filter((key) => refOf(assistant, key) === undefined);
  const read = await Promise.all(
    keys.map(async (key) => {
      const ref = refOf(assistant, key);
      if (!ref) return undefined;
      const secret = await readSecret(context, context.names.namespace, ref.name, signal);
      return { key, judged: judgeInput({ key, capsule: assistant.spec.capsule, ref, secret }) };
    }),
  );
  const values = new Map<string, StoredInput>();
  const problems = new Map<string, Problem>(unbound.map((key) => [key, unboundInputs(unbound)]));
  for (const found of read) {
    if (!found) continue;
    if ('value' in found.judged) values.set(found.key, found.judged);
    else problems.set(found.key, found.judged);
  }
  return { values, problems };
}

const unboundInputs = (keys: readonly string[]) =>
  no('InputsMissing', `No Secret is bound for: ${keys.join(', ')}. Name one for each in spec.storedInputs.`);

interface Reference {
  readonly name: string;
  readonly key: string;
}

/** An object that was stored under an older schema may lack any field. */
function refOf({ spec }: Assistant, key: string): Reference | undefined {
  const bound: unknown = spec.storedInputs?.[key]?.secretKeyRef;
  if (typeof bound !== 'object' || bound === null) return undefined;
  const { name, key: at } = bound as { name?: unknown; key?: unknown };
  return typeof name === 'string' && name !== '' && typeof at === 'string' ? { name, key: at } : undefined;
}

interface InputView {
  readonly key: string;
  readonly capsule: string;
  readonly ref: Reference;
  readonly secret: SecretObject | undefined;
}

/** The value, or the reason why there is none. No message repeats anything from the Secret. */
export function judgeInput({ key, capsule, ref, secret }: InputView): StoredInput | Problem {
  const { name } = ref;
  if (!secret) {
    return no(
      'InputSecretNotFound',
      `Secret "${name}" for the stored input "${key}" does not exist. Create it with type ${STORED_INPUT_TYPE} and label ${LABEL.capsule}=${capsule}.`,
    );
  }
  const { metadata, type, data } = secret;
  if (type !== STORED_INPUT_TYPE) {
    return no(
      'InputSecretRefused',
      `Secret "${name}" cannot be the stored input "${key}", since it is not of type ${STORED_INPUT_TYPE}. A type cannot be changed: create another Secret.`,
    );
  }
  if (metadata.labels?.[LABEL.capsule] !== capsule) {
    return no(
      'InputSecretRefused',
      `Secret "${name}" cannot be the stored input "${key}", since it is not labelled ${LABEL.capsule}=${capsule}.`,
    );
  }
  const value = decoded(data?.[ref.key]);
  if (value === undefined || value === '' || value.length > LONGEST_VALUE || CONTROL.test(value)) {
    const finding = no(
      'InputInvalid',
      `Key "${ref.key}" of Secret "${name}" is not a valid value for the stored input "${key}": it must exist and have 1 to ${LONGEST_VALUE} characters of UTF-8, without control characters such as a newline at the end.`,
    );
    return { ...finding, isEntered: Boolean(data?.[ref.key]) };
  }
  return {
    secret: name,
    at: ref.key,
    uid: metadata.uid ?? '',
    resourceVersion: metadata.resourceVersion ?? '',
    entry: metadata.annotations?.[ANNOTATION.enteredFor],
    value: new Secret(value),
  };
}

function decoded(base64: string | undefined): string | undefined {
  if (base64 === undefined) return undefined;
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Buffer.from(base64, 'base64'));
  } catch {
    return undefined;
  }
}
