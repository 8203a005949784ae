import { foreign } from '../html/parts.ts';
import { type Html, html, type Value } from '../html/template.ts';
import { Url } from '../html/url.ts';
import type { CapsuleView } from '../kubernetes/space.ts';
import { postForm, type Visit } from '../visit.ts';
import { hidden } from './credential-form.ts';

/** The parts of a quota whose usage is known, and which can be changed here. */
const QUOTA = {
  database: { label: 'Limit of its databases', help: 'For example 2Gi.' },
  storage: { label: 'Limit of its files', help: 'For example 20Gi.' },
  assistants: { label: 'Maximum number of Assistants', help: 'A number.' },
} as const;
export type QuotaKey = keyof typeof QUOTA;
export const QUOTA_KEYS = Object.keys(QUOTA) as readonly QuotaKey[];

/** The hidden field with the value that a part of the quota had when the page was shown. */
export const seenName = (key: QuotaKey): string => `seen-${key}`;

/** Why a quota was refused, and at which field. */
export interface QuotaProblem {
  readonly key: QuotaKey | undefined;
  readonly says: string;
}

interface FormState {
  readonly only?: readonly QuotaKey[];
  readonly isFirst?: boolean;
  readonly problem?: QuotaProblem | undefined;
}

/**
 * The form to change a quota. Fields that are empty or as they were shown stay unchanged; admission decides which values
 * are valid.
 */
export function quotaForm(
  visit: Visit,
  { metadata: { name }, spec: { quota = {} } }: CapsuleView,
  { only = QUOTA_KEYS, isFirst = false, problem }: FormState,
): Html {
  const fields = only.map((key) => {
    const id = `quota-${name}-${key}`;
    const now = quota[key] ?? '';
    const value = visit.form.get(key) ?? now;
    const said = problem?.key === key ? problem.says : undefined;
    return html`<div class="field"><label for="${id}">${QUOTA[key].label}</label>${problemOf(id, said)}
<input id="${id}" name="${key}" value="${value}" maxlength="32" autocomplete="off" spellcheck="false" aria-invalid="${said === undefined ? 'false' : 'true'}" aria-describedby="${id}-help ${id}-problem">
<p class="quiet" id="${id}-help">${QUOTA[key].help}</p>${hidden(seenName(key), now)}</div>`;
  });
  const onTop =
    problem !== undefined && problem.key === undefined ? problemOf(`quota-${name}`, problem.says) : '';
  const says = only.length === 1 ? 'Raise the quota' : 'Change the quota';
  return postForm(
    visit,
    Url.path`/capsules/${name}/quota`,
    html`${onTop}<div class="fields">${fields}</div><button class="${isFirst ? '' : 'plain'}">${says}</button>`,
  );
}

const problemOf = (id: string, says: string | undefined): Value =>
  says === undefined
    ? ''
    : html`<p class="problem" id="${id}-problem" role="alert">Nothing was changed. ${foreign(says, 600)}</p>`;
