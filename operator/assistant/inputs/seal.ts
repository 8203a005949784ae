import { definitionDigest } from '@space/manifests';
import type { Context } from '../../context.ts';
import type { Assistant } from '../../kinds.ts';
import { aboutOf, type Workload } from '../identity.ts';
import type { StoredInput } from './entered.ts';
import { type Definitions, type EnteredInputs, verdictOf, versionOf } from './judge.ts';
import { type SealedInput, type SealedInputs, writeSealed } from './sealed.ts';

/** Sealed values by the manifest's key. */
export type Envelopes = Readonly<Record<string, string>>;

/** More than a manifest may name; the Secret has room for them, and for the few that their hosts returned. */
const MOST_LEFT_OUT = 32;

const inKeyOrder = (inputs: Readonly<Record<string, SealedInput>>): string =>
  JSON.stringify(Object.entries(inputs).toSorted(([a], [b]) => (a < b ? -1 : 1)));

/** Assistants, as they were read, that ask for no input and have no sealed value left to remove. */
const cleared = new WeakSet<Assistant>();

/** Whether the sealed values of an Assistant without inputs need not be read again. */
export const isCleared = (assistant: Assistant): boolean => cleared.has(assistant);

/**
 * Seals what was entered since the last reconcile, and forgets the values of inputs that the manifest no longer has.
 * Returns the envelopes for exactly the manifest's definitions.
 */
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
  const { assistant, egress } = workload;
  if (Object.keys(egress.policy.inputs).length === 0) cleared.add(assistant);
  return usableEnvelopes(inputs, egress.policy.inputs);
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
  const inputs: Record<string, SealedInput> = leftOut(before, definitions);
  for (const [key, definition] of Object.entries(definitions)) {
    const value = known.entered.values.get(key);
    const old = before[key];
    if (value && verdictOf(known, key, definition) === 'seal') {
      const envelope = await context.gateways.seal({ ...about, input: key, definition }, value.value, signal);
      inputs[key] = {
        ...{ envelope, definition: definitionDigest(definition), source: versionOf(value) },
        ...(value.entry === undefined ? {} : { entry: value.entry }),
        fingerprint: await context.fingerprints.of(value.value),
      };
    } else if (old) inputs[key] = await withFingerprint(context, old, value);
  }
  return inputs;
}

/**
 * What is kept of inputs that the manifest does not name now, without their values, lest leaving one out and naming it
 * again count as an entry: that a host returned the value, of each; or what the value was entered for, of some.
 */
function leftOut(before: SealedInputs['inputs'], definitions: Definitions): SealedInputs['inputs'] {
  const without = Object.entries(before).filter(([key]) => !Object.hasOwn(definitions, key));
  const [reflected = [], others = []] = [true, false].map((is) =>
    without.filter(([, input]) => (input.reflected ?? false) === is),
  );
  const kept = [...reflected, ...others.slice(0, MOST_LEFT_OUT)];
  return Object.fromEntries(
    kept.map(([key, input]) => [key, { ...input, envelope: '', withdrawn: true }] as const),
  );
}

/** The envelopes whose values were entered for these definitions, and were not returned by their host. */
export function usableEnvelopes(inputs: SealedInputs['inputs'], definitions: Definitions): Envelopes {
  const usable = Object.entries(inputs).filter(([key, { definition, reflected, withdrawn }]) => {
    const wanted = Object.hasOwn(definitions, key) ? definitions[key] : undefined;
    return !reflected && !withdrawn && wanted !== undefined && definition === definitionDigest(wanted);
  });
  return Object.fromEntries(usable.map(([key, { envelope }]) => [key, envelope]));
}

/**
 * An earlier operator stored no fingerprint; if the Secret is unchanged since it was sealed, its value is the sealed
 * one.
 */
const withFingerprint = async (
  { fingerprints }: Context,
  old: SealedInput,
  value: StoredInput | undefined,
): Promise<SealedInput> =>
  old.fingerprint === undefined && value && old.source === versionOf(value)
    ? { ...old, fingerprint: await fingerprints.of(value.value) }
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
  const definitions = workload.egress.policy.inputs;
  const defined = Object.entries(before).filter(([key]) => Object.hasOwn(definitions, key));
  // What the manifest gives up was withdrawn in this pass, and must not come back.
  const now = [...defined, ...Object.entries(leftOut(before, definitions))];
  const inputs = now.map(([key, input]) => {
    const envelope = resealed[key];
    return [key, envelope === undefined ? input : { ...input, envelope }] as const;
  });
  await writeSealed(context, workload, { secret, inputs: Object.fromEntries(inputs) }, signal);
}
