import { type Html, html, type Value } from './template.ts';
import { bounded, lookAlikes } from './visible.ts';

/** Somebody else's words: in one direction of their own, bounded, with a note where letters look like others. */
export function foreign(text: unknown, max = 200): Html {
  const words = typeof text === 'string' ? text : '';
  const notes = lookAlikes(words).map(
    ({ word, letters }) =>
      html` <span class="mark">“${bounded(word, 40)}” has letters that look like others: ${letters}</span>`,
  );
  return html`<bdi>${bounded(words, max)}</bdi>${notes}`;
}

/** What to type for the same. */
export function kubectl(...lines: readonly string[]): Html {
  return html`<h2>The same with kubectl</h2><pre>${lines.join('\n')}</pre>`;
}

export type Tone = 'good' | 'warn' | 'bad';

export const card = (tone: Tone | 'notice', content: Value): Html =>
  html`<section class="card ${tone}">${content}</section>`;

export const state = (tone: Tone, says: string): Html => html`<span class="state ${tone}">${says}</span>`;

/** A table that becomes a list of cards on a narrow screen. */
export function table(heads: readonly string[], rows: readonly (readonly Value[])[]): Html {
  const cells = (row: readonly Value[]) =>
    row.map((cell, index) => html`<td data-label="${heads[index]}">${cell}</td>`);
  return html`<table><thead><tr>${heads.map((head) => html`<th scope="col">${head}</th>`)}</tr></thead>
<tbody>${rows.map((row) => html`<tr>${cells(row)}</tr>`)}</tbody></table>`;
}
