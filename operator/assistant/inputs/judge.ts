import { type Definition, definitionDigest, valueFault } from '@space/manifests';
import { type Finding, no, yes } from '../../conditions.ts';
import type { Context } from '../../context.ts';
import { ANNOTATION } from '../../names.ts';
import { decideInput, type Source } from './decide.ts';
import type { StoredInput, StoredInputs } from './entered.ts';
import type { SealedInput, SealedInputs } from './sealed.ts';

/** The stored inputs of an Assistant: what people entered, and what was sealed. */
export interface EnteredInputs {
  readonly entered: StoredInputs;
  readonly sealed: SealedInputs;
}

export type Definitions = Readonly<Record<string, Definition>>;

export const versionOf = ({ uid, resourceVersion }: StoredInput): string => `${uid}/${resourceVersion}`;

function sourceOf(value: StoredInput): Source {
  return { version: versionOf(value), entry: value.entry, changed: value.changed ?? false };
}

export function verdictOf({ entered, sealed }: EnteredInputs, key: string, definition: Definition) {
  const value = entered.values.get(key);
  const source = value && sourceOf(value);
  // What the value was entered for may have been forgotten, so that only its Secret can say so.
  if (sealed.forgets && sealed.inputs[key] === undefined && source && source.entry === undefined)
    return 'reentry';
  return decideInput(definition, sealed.inputs[key], source);
}

/** Adds whether entered values differ from the sealed ones, for those inputs where that matters. */
export async function compareInputs(
  context: Pick<Context, 'fingerprints'>,
  known: EnteredInputs,
  definitions: Definitions,
): Promise<EnteredInputs> {
  const { entered, sealed } = known;
  const values = new Map(entered.values);
  for (const [key, definition] of Object.entries(definitions)) {
    const [value, old] = [values.get(key), sealed.inputs[key]];
    if (!value || !old) continue;
    const [same, another] = [false, true].map((changed) =>
      decideInput(definition, old, { ...sourceOf(value), changed }),
    );
    if (same !== another) values.set(key, { ...value, changed: await isAnother(context, old, value) });
  }
  return { entered: { ...entered, values }, sealed };
}

async function isAnother(
  { fingerprints }: Pick<Context, 'fingerprints'>,
  old: SealedInput,
  value: StoredInput,
): Promise<boolean> {
  if (old.source === versionOf(value)) return false;
  // An earlier operator stored no fingerprint. Then only a Secret that was created since shows that the value may be
  // another.
  if (old.fingerprint === undefined) return !old.source.startsWith(`${value.uid}/`);
  return fingerprints.differs(old.fingerprint, value.value, `${versionOf(value)} ${value.at}`);
}

/**
 * Tells a person how to enter a value so that it counts as entered, whatever the Secret holds now; the end of a
 * sentence "enter it …".
 */
export const howToEnter = (keys: readonly string[], definitions: Definitions): string => {
  const marks = keys.flatMap((key) => {
    const definition = definitions[key];
    if (definition === undefined) return [];
    return [`${ANNOTATION.enteredFor}=${definitionDigest(definition)} for ${key}`];
  });
  return `with the console, or write it into its Secret, annotated with ${marks.join(', ')} (if it is so already, with a space and another word after that)`;
};

/**
 * The condition `InputsBound`. A value that was sealed stays bound when its Secret has gone, or is empty; one that was
 * entered since and cannot be used is told.
 */
export function judgeInputs(known: EnteredInputs, definitions: Definitions): Finding {
  const judged = Object.entries(definitions).map(([key, definition]) => ({
    key,
    verdict: verdictOf(known, key, definition),
  }));
  const keysWith = (verdict: string) => judged.filter((one) => one.verdict === verdict).map(({ key }) => key);
  const [reentry, missing, reflected] = [keysWith('reentry'), keysWith('missing'), keysWith('reflected')];
  for (const [key, definition] of Object.entries(definitions)) {
    // Otherwise the value of before would go on in silence, in the place of the one that somebody has entered.
    const problem = known.entered.problems.get(key);
    if (problem?.isEntered) return no(problem.reason, problem.message);
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

export const reflectedFinding = (keys: readonly string[], definitions: Definitions): Finding =>
  no(
    'InputReflected',
    `The host of ${keys.join(', ')} returned the value in several answers. Although it was replaced by stars there, this tells the Assistant which of its guesses is right, so the value is no longer used. Exchange it at the host, check what the Assistant requested there, and enter the new one ${howToEnter(keys, definitions)}.`,
  );
