import { type Context, readSecret } from '../../context.ts';
import { type Assistant, SECRET, type SecretObject } from '../../kinds.ts';
import { ANNOTATION, LABEL, sealedSecretName } from '../../names.ts';
import { fromBase64, toBase64 } from '../../runtime/base64.ts';
import { isAlreadyExists } from '../../runtime/errors.ts';
import type { Workload } from '../identity.ts';

/** The sealed value of one stored input, with its definition and the Secret that it came from. */
export interface SealedInput {
  readonly envelope: string;
  /** Digest of the definition that the value was entered for. */
  readonly definition: string;
  /** UID and resource version of the Secret that a person wrote. */
  readonly source: string;
  /** What the Secret's annotation said that the value was entered for, if it had one. */
  readonly entry?: string;
  /** Distinguishes this value from others; absent if an earlier operator sealed it. */
  readonly fingerprint?: string;
  /** Whether the host returned the value, so that it is no longer used. */
  readonly reflected?: boolean;
  /** Whether the manifest has left the input out since. There is no envelope any more, only what it was entered for. */
  readonly withdrawn?: boolean;
}

export interface SealedInputs {
  readonly secret: SecretObject | undefined;
  readonly inputs: Readonly<Record<string, SealedInput>>;
  /** Whether there were more that the manifest has left out than are kept. */
  readonly forgets?: boolean;
}

/** The key of that in the Secret. The one of an input begins with a letter. */
const FORGETS = '.forgets';

/** Reads the sealed inputs; those of another Assistant with the same name are ignored. */
export async function readSealed(
  context: Pick<Context, 'client' | 'names'>,
  { spec, metadata }: Assistant,
  id: string,
  signal: AbortSignal,
): Promise<SealedInputs> {
  const name = sealedSecretName(spec.capsule, id);
  const secret = await readSecret(context, context.names.systemNamespace, name, signal);
  const own = secret?.metadata.annotations?.[ANNOTATION.owner] === metadata.uid;
  const data = own ? (secret?.data ?? {}) : {};
  const inputs = Object.keys(data)
    .filter((key) => !key.includes('.'))
    .flatMap((key) => {
      const part = (name: string) => fromBase64(data[`${key}${name}`] ?? '');
      const [envelope, definition, source] = [part(''), part('.definition'), part('.source')];
      const [entry, fingerprint, reflected] = [part('.entry'), part('.fingerprint'), part('.reflected')];
      const withdrawn = part('.withdrawn') !== '';
      if (envelope === '' && !withdrawn) return [];
      if (!definition || !source) return [];
      const input: SealedInput = {
        ...{ envelope, definition, source },
        ...(entry ? { entry } : {}),
        ...(fingerprint ? { fingerprint } : {}),
        ...(reflected ? { reflected: true } : {}),
        ...(withdrawn ? { withdrawn } : {}),
      };
      return [[key, input] as const];
    });
  // The object has no prototype, since a manifest may name an input "constructor".
  const bare: SealedInputs['inputs'] = Object.assign(Object.create(null), Object.fromEntries(inputs));
  return { secret, inputs: bare, ...(data[FORGETS] === undefined ? {} : { forgets: true }) };
}

/** Replaces all sealed inputs; afterwards the Secrets that people wrote may be deleted. */
export async function writeSealed(
  context: Context,
  { assistant, manifest }: Workload,
  { secret: before, inputs }: SealedInputs,
  signal: AbortSignal,
): Promise<void> {
  const { capsule } = assistant.spec;
  const data = Object.fromEntries(
    Object.entries(inputs).flatMap(
      ([key, { envelope, definition, source, entry, fingerprint, reflected, withdrawn }]) => [
        [key, toBase64(envelope)],
        [`${key}.definition`, toBase64(definition)],
        [`${key}.source`, toBase64(source)],
        ...(entry ? [[`${key}.entry`, toBase64(entry)]] : []),
        ...(fingerprint ? [[`${key}.fingerprint`, toBase64(fingerprint)]] : []),
        ...(reflected ? [[`${key}.reflected`, toBase64('true')]] : []),
        ...(withdrawn ? [[`${key}.withdrawn`, toBase64('true')]] : []),
      ],
    ),
  );
  const uid = assistant.metadata.uid ?? '';
  if (before && before.metadata.annotations?.[ANNOTATION.owner] === uid) {
    const gone = Object.keys(before.data ?? {}).filter((key) => key !== FORGETS && !Object.hasOwn(data, key));
    const removed = Object.fromEntries(gone.map((key) => [key, null]));
    const forgets = gone.some((key) => !key.includes('.')) ? { [FORGETS]: toBase64('true') } : {};
    await context.writer.merge(SECRET, before, { data: { ...removed, ...data, ...forgets } }, signal);
    return;
  }
  if (before) await context.writer.remove(SECRET, before, signal);
  const { names } = context;
  try {
    await context.writer.create<SecretObject>(
      SECRET,
      {
        metadata: {
          name: sealedSecretName(capsule, manifest.platform.id),
          namespace: names.systemNamespace,
          labels: {
            [LABEL.space]: names.space,
            [LABEL.capsule]: capsule,
            [LABEL.assistant]: manifest.platform.id,
          },
          annotations: { [ANNOTATION.owner]: uid },
        },
        type: 'Opaque',
        data,
      },
      signal,
    );
  } catch (error) {
    // The next reconcile reads the Secret that exists.
    if (!isAlreadyExists(error)) throw error;
  }
}
