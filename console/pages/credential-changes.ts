import type { CredentialRecord } from '@space/contracts/objectstore';
import { foreign, moment } from '../html/parts.ts';
import { type Html, html } from '../html/template.ts';
import type { Form } from '../http/form.ts';
import type { Done, DoneAct } from '../kubernetes/record.ts';
import { hidden } from './credential-form.ts';

export interface Inventory {
  readonly inventory_generation: number;
  readonly sets: readonly CredentialRecord[];
}

/** A set as the person saw it: its id, generation and name, and whether it was selected. */
const SEEN = /^(ocs_[A-Za-z0-9_-]{22}):([0-9]{1,15}):([a-z0-9-]{1,64}):([01])$/;

/**
 * Sent with each act, so that a page can say what has changed meanwhile. It contains nothing that was not on the page.
 */
export const seenOf = ({ inventory_generation, sets }: Inventory): Html =>
  hidden(
    'seen',
    [
      inventory_generation,
      ...sets.map(
        ({ set_id, generation, name, selected }) => `${set_id}:${generation}:${name}:${selected ? 1 : 0}`,
      ),
    ].join(','),
  );

interface Seen {
  readonly generation: number;
  readonly name: string;
  readonly selected: boolean;
}

function seenIn(form: Form): { readonly generation: number; readonly sets: ReadonlyMap<string, Seen> } {
  const [first = '', ...rest] = (form.get('seen') ?? '').split(',');
  const sets = rest.flatMap((one) => {
    const [, id = '', generation = '', name = '', selected] = SEEN.exec(one) ?? [];
    return id === ''
      ? []
      : [[id, { generation: Number(generation), name, selected: selected === '1' }] as const];
  });
  return {
    generation: /^[0-9]{1,15}$/.test(first) ? Number(first) : Number.MAX_SAFE_INTEGER,
    sets: new Map(sets),
  };
}

/** The name of a set on the page of the form. */
export const nameSeen = (form: Form, id: string): string => seenIn(form).sets.get(id)?.name ?? id;

/** A difference from what the person saw. */
interface Change {
  readonly says: Html;
  /** Whether a recorded act is this change. */
  readonly isBy: (done: Done) => boolean;
}

/**
 * What others have changed since. `done` are the recorded acts, undefined if the person may not see them; the
 * generation of each shows which ones were later, and who did them. For other changes the broker knows the time.
 */
export function changesSince(form: Form, list: Inventory, done: readonly Done[] | undefined): Html {
  const { generation: from, sets } = seenIn(form);
  const to = list.inventory_generation;
  const recorded = (done ?? []).filter(({ generation = 0 }) => generation > from && generation <= to);
  const unrecorded = changesIn(sets, list).filter(({ isBy }) => !recorded.some(isBy));
  const changes = [
    ...recorded.map(ofDone),
    ...unrecorded.map(({ says }) => html`${says}; it is not recorded by whom`),
  ];
  const missing = to - from - recorded.length;
  const isUnknown = missing > 0 && unrecorded.length === 0;
  return html`${changes.length === 0 ? '' : html`<ul>${changes.map((change) => html`<li>${change}.</li>`)}</ul>`}
${isUnknown ? html`<p>It is not recorded what else was changed, and by whom.</p>` : ''}
<p class="quiet">${done === undefined ? 'You may not see the Capsule, which records who changed what.' : 'Only changes made with this console are recorded, and only if the person may write to the Capsule.'}</p>`;
}

const DONE: Partial<Record<DoneAct, (what: Html) => Html>> = {
  created: (what) => html`${what} was created`,
  rotated: (what) => html`${what} was rotated`,
  selected: (what) => html`${what} was selected`,
  deselected: () => html`The selection was removed`,
  deleted: (what) => html`${what} was deleted`,
};

const ofDone = ({ act, what, by, at }: Done): Html =>
  html`${DONE[act]?.(foreign(what, 64)) ?? act} by ${foreign(by, 200)} at ${moment(at)}`;

function changesIn(before: ReadonlyMap<string, Seen>, { sets }: Inventory): readonly Change[] {
  const now = new Set(sets.map(({ set_id }) => set_id));
  return [
    ...sets.flatMap((set) => changesOf(before.get(set.set_id), set)),
    ...[...before].flatMap(([id, { name }]) =>
      now.has(id) ? [] : [changed(html`${name} was deleted`, name, 'deleted')],
    ),
  ];
}

function changesOf(before: Seen | undefined, set: CredentialRecord): readonly Change[] {
  const { name, generation, selected, created_at: made, rotated_at: rotated } = set;
  if (before === undefined) return [changed(html`${name} was created at ${moment(made)}`, name, 'created')];
  return [
    ...(before.generation === generation
      ? []
      : [changed(html`${name} was rotated at ${moment(rotated ?? made)}`, name, 'rotated')]),
    ...(before.selected === selected
      ? []
      : selected
        ? [changed(html`${name} is now selected`, name, 'selected')]
        : [
            {
              says: html`${name} is no longer selected`,
              isBy: ({ act }: Done) => act === 'selected' || act === 'deselected',
            },
          ]),
  ];
}

const changed = (says: Html, name: string, by: DoneAct): Change => ({
  says,
  isBy: ({ act, what }) => act === by && what === name,
});
