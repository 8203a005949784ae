import type { CredentialRecord } from '@space/contracts/objectstore';
import { moment } from '../html/parts.ts';
import { type Html, html } from '../html/template.ts';
import { hidden } from './credential-form.ts';

export interface Inventory {
  readonly inventory_generation: number;
  readonly sets: readonly CredentialRecord[];
}

/** A set as somebody saw it: its number, which version of it, its name, and whether it was selected. */
const SEEN = /^(ocs_[A-Za-z0-9_-]{22}):([0-9]{1,15}):([a-z0-9-]{1,64}):([01])$/;

/** Goes with each act, so that a page can say what was changed meanwhile. It holds nothing that was not on the page. */
export const seenOf = ({ sets }: Inventory): Html =>
  hidden(
    'seen',
    sets
      .map(({ set_id, generation, name, selected }) => `${set_id}:${generation}:${name}:${selected ? 1 : 0}`)
      .join(','),
  );

/** What others have changed since, and when, as far as the broker's record tells it. */
export function changesSince(seen: string | undefined, { sets }: Inventory): Html {
  const before = new Map(
    (seen ?? '').split(',').flatMap((one) => {
      const [, id = '', generation = '', name = '', selected] = SEEN.exec(one) ?? [];
      return id === '' ? [] : [[id, { generation: Number(generation), name, selected: selected === '1' }]];
    }),
  );
  const now = new Set(sets.map(({ set_id }) => set_id));
  const changes = [
    ...sets.flatMap((set) => changesOf(before.get(set.set_id), set)),
    ...[...before].flatMap(([id, { name }]) => (now.has(id) ? [] : [html`${name} was deleted`])),
  ];
  const who = html`<p class="quiet">The broker does not record by whom, nor when a set was selected or deleted.</p>`;
  return changes.length === 0
    ? who
    : html`<ul>${changes.map((change) => html`<li>${change}.</li>`)}</ul>${who}`;
}

interface Seen {
  readonly generation: number;
  readonly selected: boolean;
}

function changesOf(before: Seen | undefined, set: CredentialRecord): readonly Html[] {
  const { name, generation, selected, created_at: made, rotated_at: rotated } = set;
  if (before === undefined) return [html`${name} was made at ${moment(made)}`];
  return [
    ...(before.generation === generation ? [] : [html`${name} was rotated at ${moment(rotated ?? made)}`]),
    ...(before.selected === selected ? [] : [html`${name} is ${selected ? 'now' : 'no longer'} selected`]),
  ];
}
