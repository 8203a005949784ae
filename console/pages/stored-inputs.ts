import {
  checkManifest,
  definitionDigest,
  definitionOf,
  LONGEST_VALUE,
  type Manifest,
} from '@space/manifests';
import { foreign, hostName, outside, state } from '../html/parts.ts';
import { type Html, html, type Value } from '../html/template.ts';
import { Url } from '../html/url.ts';
import { type Done, doneOn } from '../kubernetes/record.ts';
import type { AssistantView } from '../kubernetes/space.ts';
import { postForm, type Visit } from '../visit.ts';
import { isApproved } from './approval-section.ts';
import { hidden } from './credential-form.ts';

export const INPUT_TYPE = 'platform.space/stored-input';
/**
 * Annotation of the Secret: the digest of the definition that its value was entered for, then a text that distinguishes
 * entries. The operator uses the value for no other definition.
 */
export const ENTERED_FOR = 'platform.space/entered-for';

export type StoredInput = NonNullable<Manifest['stored_inputs']>[string];

/** The definition of an input, if the manifest is valid and has it. */
export function inputOf({ spec }: AssistantView, key: string): StoredInput | undefined {
  const checked = checkManifest(spec.manifest);
  const inputs = checked.ok ? (checked.manifest.stored_inputs ?? {}) : {};
  return Object.hasOwn(inputs, key) ? inputs[key] : undefined;
}

/**
 * The Secret that the Assistant names for an input. An own property is required, since an input may be called
 * "constructor".
 */
export const boundOf = ({ spec: { storedInputs = {} } }: AssistantView, key: string) =>
  Object.hasOwn(storedInputs, key) ? storedInputs[key]?.secretKeyRef : undefined;

/** The name and key of an input's Secret. No identifier contains a dot, so no two inputs of a Space share a name. */
export const secretOf = (view: AssistantView, key: string): SecretOf =>
  boundOf(view, key) ?? ownSecret(view, key);

interface SecretOf {
  readonly name: string;
  readonly key: string;
}

function ownSecret({ metadata, spec }: AssistantView, key: string): SecretOf {
  const id = spec.manifest?.platform.id ?? metadata.name;
  return { name: `${spec.capsule ?? ''}.${id}.${key}`, key: 'value' };
}

/** Whether it is the Secret that the console makes for this input, and not one of a name that somebody chose. */
export function isOwnName(view: AssistantView, key: string, { name, key: field }: SecretOf): boolean {
  const own = ownSecret(view, key);
  return name === own.name && field === own.key;
}

/** Whether another Assistant of the Capsule took the same id first, whose inputs have Secrets of the same names. */
export const isDuplicate = ({ status }: AssistantView): boolean =>
  status.conditions.some(({ type, reason }) => type === 'Accepted' && reason === 'DuplicateIdentifier');

/** The last entry of an input that is recorded. */
export const lastEntry = ({ metadata }: AssistantView, key: string): Done | undefined =>
  doneOn(metadata).find(({ act, what }) => act === 'input' && what === key);

/** By which a form names the entry that its page showed. */
export const nameOfEntry = (entry: Done | undefined): string =>
  entry === undefined ? '' : `${entry.at} ${entry.generation} ${entry.by}`;

/** What a person sees of an input: where its value goes, in which form, and in which Secret it is stored. */
export function seenOf(view: AssistantView, key: string, input: StoredInput) {
  const { name, key: field } = secretOf(view, key);
  return { definition: definitionDigest(definitionOf(input)), secret: `${name}/${field}` };
}

/** Why a value was refused, and for which input; never the value. */
export interface InputProblem {
  readonly key: string;
  readonly says: string;
}

/** The inputs of a manifest, each with a field that is always empty: values are written here and never read. */
export async function inputsSection(
  visit: Visit,
  {
    view,
    manifest,
    problem,
  }: {
    readonly view: AssistantView;
    readonly manifest: Manifest;
    readonly problem: InputProblem | undefined;
  },
): Promise<Html> {
  const inputs = Object.entries(manifest.stored_inputs ?? {});
  if (inputs.length === 0) return html``;
  const { namespace } = visit.names;
  const may = await Promise.all(
    (['create', 'patch'] as const).map((verb) => visit.may({ resource: 'secrets', namespace, verb })),
  );
  const refusal = isDuplicate(view)
    ? html`<p>Another Assistant of the Capsule has the same id, and its stored inputs are in the Secrets of these names. Values cannot be entered here.</p>`
    : may.every(Boolean)
      ? ''
      : html`<p class="quiet">You may not enter values: this requires <code>create</code> and <code>patch</code> on Secrets in the Space’s namespace.</p>`;
  // One act of a page is emphasised: the first missing input, unless an approval is required before.
  const missing = inputs.find(([key]) => boundOf(view, key) === undefined);
  const stands = isApproved(view) ? missing?.[0] : undefined;
  const shown = inputs.map(
    ([key, input]) => html`<section class="card"><h3>${foreign(input.label, 80)}</h3>
<p>${foreign(input.description, 400)}</p><p>${outside(input.help_url, 'How to get it')}</p>
<dl class="facts"><dt>Sent to</dt><dd>${hostName(input.host)}</dd><dt>Value</dt><dd>${bound(view, key)}</dd></dl>
${refusal === '' ? inputForm(visit, view, [key, input], { stands: stands === key, problem: problem?.key === key ? problem.says : undefined }) : ''}</section>`,
  );
  return html`<h2 id="stored-inputs">Stored inputs</h2>${refusal}${shown}`;
}

function bound(view: AssistantView, key: string): Value {
  const name = boundOf(view, key)?.name;
  return name === undefined ? state('bad', 'not entered yet') : html`in the Secret <code>${name}</code>`;
}

function inputForm(
  visit: Visit,
  view: AssistantView,
  [key, input]: readonly [string, StoredInput],
  { stands, problem }: { readonly stands: boolean; readonly problem: string | undefined },
): Html {
  const { name, resourceVersion } = view.metadata;
  const action = Url.path`/capsules/${view.spec.capsule ?? ''}/assistants/${name}/inputs/${key}`;
  const id = `input-${key}`;
  const said =
    problem === undefined ? '' : html`<p class="problem" id="${id}-problem" role="alert">${problem}</p>`;
  const isSet = boundOf(view, key) !== undefined;
  const seen = seenOf(view, key, input);
  return postForm(
    visit,
    action,
    html`${hidden('definition', seen.definition)}${hidden('secret', seen.secret)}${hidden('version', resourceVersion)}${hidden('entered', nameOfEntry(lastEntry(view, key)))}<div class="field"><label for="${id}">${isSet ? 'New value' : 'Value'}</label>${said}
<input id="${id}" name="value" type="password" autocomplete="new-password" spellcheck="false" required maxlength="${LONGEST_VALUE}" aria-invalid="${problem === undefined ? 'false' : 'true'}" aria-describedby="${id}-help ${id}-problem">
<p class="quiet" id="${id}-help">It is stored and never shown again. The Assistant does not receive it.</p></div>
<button class="${stands ? '' : 'plain'}">${isSet ? 'Replace' : 'Store'}</button>`,
  );
}
