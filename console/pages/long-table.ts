import { table } from '../html/parts.ts';
import { type Html, html, type Value } from '../html/template.ts';
import type { Url } from '../html/url.ts';
import { MOST_ROWS, type Row, type Rows } from '../kubernetes/tables.ts';
import type { Visit } from '../visit.ts';

const ON_A_PAGE = 100;
const LONGEST_NAME = 63;

interface LongTable extends Rows {
  readonly heads: readonly string[];
  readonly line: (row: Row) => readonly Value[];
  /** The address of the page with a search text and the number of a part of the table. */
  readonly at: (name: string, part: number) => Url;
  /** What the rows are, for the texts beside the table. */
  readonly what: string;
}

/** A table of which a page shows one part, with a field to search names in all of it. */
export function longTable(
  { query }: Pick<Visit, 'query'>,
  { heads, rows, isCut, line, at, what }: LongTable,
): Html {
  const wanted = (query.get('name') ?? '').trim().slice(0, LONGEST_NAME);
  const found = wanted === '' ? rows : rows.filter(({ name }) => name.includes(wanted));
  const parts = Math.max(1, Math.ceil(found.length / ON_A_PAGE));
  const part = Math.min(Math.max(1, Math.trunc(Number(query.get('part')) || 1)), parts);
  const shown = found.slice((part - 1) * ON_A_PAGE, part * ON_A_PAGE);
  const list = table(heads, shown.map(line));
  const cut = isCut ? unread(what, 'shown') : '';
  if (rows.length <= ON_A_PAGE && wanted === '') return html`${cut}${list}`;
  const form = html`<form method="get" action="${at('', 1).withoutQuery()}"><div class="field"><label for="part-of-a-name">Part of a name</label><div class="acts"><input id="part-of-a-name" name="name" value="${wanted}" maxlength="${LONGEST_NAME}" autocomplete="off"><button class="plain">Search</button></div></div></form>`;
  const said =
    found.length === 0
      ? html`<p class="quiet">None of ${rows.length} ${what} has “${wanted}” in its name.</p>`
      : html`<p class="quiet">${(part - 1) * ON_A_PAGE + 1} to ${(part - 1) * ON_A_PAGE + shown.length} of ${found.length} ${what}${wanted === '' ? '' : html` with “${wanted}” in their name`}.</p>`;
  const before = part > 1 ? html`<li><a href="${at(wanted, part - 1)}" rel="prev">Previous</a></li>` : '';
  const after = part < parts ? html`<li><a href="${at(wanted, part + 1)}" rel="next">Next</a></li>` : '';
  const pager =
    parts === 1
      ? ''
      : html`<nav aria-label="Parts of the table"><ul class="acts">${before}${after}</ul></nav>`;
  return html`${cut}${form}${said}${found.length === 0 ? '' : list}${pager}`;
}

/** What a page says of a list that has more rows than are read. */
export const unread = (what: string, done: 'shown' | 'examined'): Html =>
  html`<p>There are more than ${MOST_ROWS.toLocaleString('en')} ${what} in this Space. The others are not ${done} here.</p>`;
