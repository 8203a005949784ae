import { definitionDigest } from '@space/manifests';
import type { Context } from '../../context.ts';
import { aboutOf, type Workload } from '../identity.ts';
import type { StoredInput } from './entered.ts';
import { fingerprintOf } from './fingerprint.ts';
import { type Definitions, type EnteredInputs, verdictOf, versionOf } from './judge.ts';
import { type SealedInput, type SealedInputs, writeSealed } from './sealed.ts';

/** Sealed values by the manifest's key. */
export type Envelopes = Readonly<Record<string, string>>;

/** More than a manifest may name; the Secret has room for them. */
const MOST_REFLECTED = 32;

const inKeyOrder = (inputs: Readonly<Record<string, SealedInput>>): string =>
  JSON.stringify(Object.entries(inputs).toSorted(([a], [b]) => (a < b ? -1 : 1)));

/** Seals what was entered since the last reconcile. Returns the envelopes for exactly the manifest's definitions. */
export async function ensureSealed(
  context: Context,
  workload: Workload,
  known: EnteredInputs,
  signal: AbortSignal,
): Promise<Envelopes> {
  const { secret, inputs: before } = known.sealed;
  const inputs = await sealEntered(context, workload, known, signal);
  if (inKeyOrder(inputs) !== inKeyOrder(before))
    await writeSealed(context, workload, { secret, inputs }, signal);
  return usableOf(inputs, workload.egress.policy.inputs);
}

/** The sealed inputs with the values that were entered for the manifest's definitions. */
async function sealEntered(
  context: Context,
  { assistant, manifest, egress }: Workload,
  known: EnteredInputs,
  signal: AbortSignal,
): Promise<SealedInputs['inputs']> {
  const about = aboutOf(assistant, manifest.platform.id);
  const definitions = egress.policy.inputs;
  const before = known.sealed.inputs;
  // Also of an input that the manifest does not name now, lest leaving it out and naming it again count as an entry.
  const reflected = Object.entries(before).filter(
    ([key, input]) => input.reflected && !Object.hasOwn(definitions, key),
  );
  const inputs: Record<string, SealedInput> = Object.fromEntries(reflected.slice(0, MOST_REFLECTED));
  for (const [key, definition] of Object.entries(definitions)) {
    const value = known.entered.values.get(key);
    const old = before[key];
    if (value && verdictOf(known, key, definition) === 'seal') {
      const envelope = await context.gateways.seal({ ...about, input: key, definition }, value.value, signal);
      inputs[key] = {
        ...{ envelope, definition: definitionDigest(definition), source: versionOf(value) },
        ...(value.entry === undefined ? {} : { entry: value.entry }),
        fingerprint: await fingerprintOf(value.value),
      };
    } else if (old) inputs[key] = await withFingerprint(old, value);
  }
  return inputs;
}

/** The envelopes whose values were entered for these definitions, and were not returned by their host. */
function usableOf(inputs: SealedInputs['inputs'], definitions: Definitions): Envelopes {
  const usable = Object.entries(inputs).filter(([key, { definition, reflected }]) => {
    const wanted = definitions[key];
    return !reflected && wanted !== undefined && definition === definitionDigest(wanted);
  });
  return Object.fromEntries(usable.map(([key, { envelope }]) => [key, envelope]));
}

/**
 * An earlier operator stored no fingerprint; if the Secret is unchanged since it was sealed, its value is the sealed
 * one.
 */
const withFingerprint = async (old: SealedInput, value: StoredInput | undefined): Promise<SealedInput> =>
  old.fingerprint === undefined && value && old.source === versionOf(value)
    ? { ...old, fingerprint: await fingerprintOf(value.value) }
    : old;

/**
 * Stores the envelopes that the gateway sealed again because a key will be retired. Only the envelopes that were sent
 * in this pass are replaced; others are replaced in the next one.
 */
export async function keepResealed(
  context: Context,
  workload: Workload,
  {
    sealed: { secret, inputs: before },
    sent,
    resealed,
  }: { readonly sealed: SealedInputs; readonly sent: Envelopes; readonly resealed: Envelopes },
  signal: AbortSignal,
): Promise<void> {
  if (Object.keys(resealed).length === 0) return;
  if (Object.entries(sent).some(([key, envelope]) => before[key]?.envelope !== envelope)) return;
  const inputs = Object.entries(before).map(([key, input]) => {
    const envelope = resealed[key];
    return [key, envelope === undefined ? input : { ...input, envelope }] as const;
  });
  await writeSealed(context, workload, { secret, inputs: Object.fromEntries(inputs) }, signal);
}
