import { randomBytes } from 'node:crypto';
import { formats } from '../../manifests/driver/formats.ts';
import type { CredentialForm } from '../../manifests/driver/objectstore.ts';
import { flag, type Html, html } from '../html/template.ts';
import { Url } from '../html/url.ts';
import { postForm, type Visit } from '../visit.ts';
import type { Problem } from './credential-problems.ts';

export type Field = CredentialForm['forms'][0]['fields'][number];

export const hidden = (name: string, value: string | number): Html =>
  html`<input type="hidden" name="${name}" value="${value}">`;

export const key = () => hidden('idempotency_key', randomBytes(24).toString('base64url'));

export function createForm(
  visit: Visit,
  capsule: string,
  about: {
    readonly form: CredentialForm;
    /** What the person saw of the sets, so that nothing else is changed. */
    readonly seen: Html;
    readonly problem: Problem | undefined;
  },
): Html {
  const { form, seen, problem } = about;
  const name: Field = {
    id: 'name',
    label: 'Name',
    type: 'text',
    format: '',
    min: 1,
    max: 64,
    required: true,
    secret: false,
  };
  // Values of another form on the page do not belong in this one.
  const isMine = visit.form.has('name');
  const typed = (id: string) => (isMine ? visit.form.get(id) : undefined);
  const told = (id: string) => (isMine && problem?.field === id ? problem.says : undefined);
  const inputs = form.forms[0].fields.map((field) =>
    fieldInput(field, { prefix: 'new', value: typed(inputOf(field)), problem: told(field.id) }),
  );
  const content = html`${seen}${key()}<div class="fields">
${fieldInput(name, { prefix: 'new', name: 'name', value: typed('name'), problem: told('name') })}${inputs}</div><button>Verify and save</button>`;
  return html`<div class="card">${postForm(visit, Url.path`/capsules/${capsule}/credentials/create`, content)}</div>`;
}

/** The name of the input shows whether its value may be kept in the browser. */
export const inputOf = ({ id, secret }: Field): string => `${secret ? 'secret' : 'field'}-${id}`;

interface FieldState {
  readonly prefix: string;
  readonly name?: string;
  readonly value?: string | undefined;
  readonly problem?: string | undefined;
}

/** A field as the broker's form describes it. A secret field is always empty, whatever was entered before. */
export function fieldInput(
  field: Field,
  { prefix, name = inputOf(field), value = '', problem }: FieldState,
): Html {
  const id = `${prefix}-${field.id}`;
  const says = problem === undefined ? '' : html`<p class="problem" id="${id}-problem">${problem}</p>`;
  const invalid = problem === undefined ? 'false' : 'true';
  const input =
    field.type === 'choice'
      ? html`<select id="${id}" name="${name}" aria-invalid="${invalid}">${choicesOf(field).map(
          (one) => html`<option value="${one}" ${flag('selected', one === value)}>${one}</option>`,
        )}</select>`
      : html`<input id="${id}" name="${name}" type="${field.secret ? 'password' : 'text'}" value="${field.secret ? '' : value}" maxlength="${field.max}" autocomplete="${field.secret ? 'new-password' : 'off'}" spellcheck="false" required aria-invalid="${invalid}" aria-describedby="${id}-problem">`;
  return html`<div class="field"><label for="${id}">${field.label}</label>${says}${input}</div>`;
}

/** The choices of a format: its pattern consists of plain words as alternatives. */
function choicesOf({ format }: Field): readonly string[] {
  const [, words = ''] = /^\^\(\?:([a-z|-]+)\)\$$/.exec(formats[format]?.pattern.source ?? '') ?? [];
  return words.split('|');
}
