import { type Definition, definitionDigest, valueFault } from '@space/manifests';
import { type Finding, no, yes } from '../../conditions.ts';
import type { Context } from '../../context.ts';
import { ASSISTANT } from '../../kinds.ts';
import { ANNOTATION } from '../../names.ts';
import { aboutOf, type Workload } from '../identity.ts';
import { decideInput, type Source } from './decide.ts';
import type { StoredInput, StoredInputs } from './entered.ts';
import { differs, fingerprintOf } from './fingerprint.ts';
import { readSealed, type SealedInput, type SealedInputs, writeSealed } from './sealed.ts';

/** The stored inputs of an Assistant: what people entered, and what was sealed. */
export interface EnteredInputs {
  readonly entered: StoredInputs;
  readonly sealed: SealedInputs;
}

type Definitions = Readonly<Record<string, Definition>>;

/** Sealed values by the manifest's key. */
export type Envelopes = Readonly<Record<string, string>>;

const versionOf = ({ uid, resourceVersion }: StoredInput): string => `${uid}/${resourceVersion}`;

function sourceOf(value: StoredInput): Source {
  return { version: versionOf(value), entry: value.entry, changed: value.changed ?? false };
}

function verdictOf({ entered, sealed }: EnteredInputs, key: string, definition: Definition) {
  const value = entered.values.get(key);
  return decideInput(definition, sealed.inputs[key], value && sourceOf(value));
}

/** Adds whether entered values differ from the sealed ones, for those inputs where that matters. */
export async function compareInputs(known: EnteredInputs, definitions: Definitions): Promise<EnteredInputs> {
  const { entered, sealed } = known;
  const values = new Map(entered.values);
  for (const [key, definition] of Object.entries(definitions)) {
    const [value, old] = [values.get(key), sealed.inputs[key]];
    if (!value || !old) continue;
    const [same, another] = [false, true].map((changed) =>
      decideInput(definition, old, { ...sourceOf(value), changed }),
    );
    if (same !== another) values.set(key, { ...value, changed: await isAnother(old, value) });
  }
  return { entered: { ...entered, values }, sealed };
}

async function isAnother(old: SealedInput, value: StoredInput): Promise<boolean> {
  if (old.source === versionOf(value)) return false;
  // An earlier operator stored no fingerprint. Then only a Secret that was created since shows that the value may be
  // another.
  if (old.fingerprint === undefined) return !old.source.startsWith(`${value.uid}/`);
  return differs(old.fingerprint, value.value);
}

/**
 * Tells a person how to enter a value so that it counts as entered, whatever the Secret holds now; the end of a
 * sentence "enter it …".
 */
const howToEnter = (keys: readonly string[], definitions: Definitions): string => {
  const marks = keys.flatMap((key) => {
    const definition = definitions[key];
    return definition ? [`${ANNOTATION.enteredFor}=${definitionDigest(definition)} for ${key}`] : [];
  });
  return `with the console, or write it into its Secret, annotated with ${marks.join(', ')}`;
};

/** The condition `InputsBound`. A value that was sealed stays bound when its Secret has gone. */
export function judgeInputs(known: EnteredInputs, definitions: Definitions): Finding {
  const judged = Object.entries(definitions).map(([key, definition]) => ({
    key,
    verdict: verdictOf(known, key, definition),
  }));
  const keysWith = (verdict: string) => judged.filter((one) => one.verdict === verdict).map(({ key }) => key);
  const [reentry, missing, reflected] = [keysWith('reentry'), keysWith('missing'), keysWith('reflected')];
  for (const [key, definition] of Object.entries(definitions)) {
    const value = known.entered.values.get(key)?.value.reveal();
    const fault = value === undefined ? undefined : valueFault(definition, value);
    if (fault !== undefined) return no('InputInvalid', `The value of the stored input "${key}" ${fault}.`);
  }
  if (reflected.length > 0) return reflectedFinding(reflected, definitions);
  if (reentry.length > 0)
    return no(
      'InputNeedsReentry',
      `The value of ${reentry.join(', ')} was entered for another host, other routes or another form than this manifest has. To use it, enter it again ${howToEnter(reentry, definitions)}; or restore the earlier manifest.`,
    );
  const [first] = missing;
  if (first !== undefined)
    return (
      known.entered.problems.get(first) ??
      no('InputsMissing', `Nobody has entered a value for: ${missing.join(', ')}.`)
    );
  return yes('Ready', 'All stored inputs are bound.');
}

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

const reflectedFinding = (keys: readonly string[], definitions: Definitions): Finding =>
  no(
    'InputReflected',
    `The host of ${keys.join(', ')} returned the value in several answers. Although it was replaced by stars there, this tells the Assistant which of its guesses is right, so the value is no longer used. Exchange it at the host, check what the Assistant requested there, and enter the new one ${howToEnter(keys, definitions)}.`,
  );

/**
 * Asks the replicas which values their hosts returned too often, and marks these in the sealed Secret: they are not
 * used again until a person has entered a new value, even if the replicas restart. Returns a finding about them.
 */
export async function markReflected(
  context: Context,
  workload: Workload,
  sent: Envelopes,
  signal: AbortSignal,
): Promise<Finding | undefined> {
  if (Object.keys(sent).length === 0) return undefined;
  const { assistant, manifest } = workload;
  const { id } = manifest.platform;
  const suspended = await context.gateways.suspended(aboutOf(assistant, id), signal);
  if (suspended.length === 0) return undefined;
  const { secret, inputs } = await readSealed(context, assistant, id, signal);
  const marked = suspended.filter((key) => inputs[key] !== undefined && inputs[key].envelope === sent[key]);
  if (marked.length === 0) return undefined;
  const entries = Object.entries(inputs).map(
    ([key, input]) => [key, marked.includes(key) ? { ...input, reflected: true } : input] as const,
  );
  await writeSealed(context, workload, { secret, inputs: Object.fromEntries(entries) }, signal);
  context.events.record(ASSISTANT, assistant, {
    type: 'Warning',
    reason: 'InputReflected',
    action: 'Suspend',
    note: `The host of ${marked.join(', ')} returned the value in several answers, where it was replaced by stars; it is no longer used. Exchange it there and enter it again.`,
  });
  return reflectedFinding(marked, workload.egress.policy.inputs);
}

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
