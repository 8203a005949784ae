import { type Html, html, type Value } from './template.ts';
import { Url } from './url.ts';
import { bounded, isPlainHost, lookAlikes } from './visible.ts';

/** A text of somebody else: in its own direction, of limited length, with a note about look-alike letters. */
export function foreign(text: unknown, max = 200): Html {
  const words = typeof text === 'string' ? text : '';
  const notes = lookAlikes(words).map(
    ({ word, letters }) =>
      html` <span class="mark">“${bounded(word, 40)}” has letters that look like others: ${letters}</span>`,
  );
  return html`<bdi>${bounded(words, max)}</bdi>${notes}`;
}

/** A host as a manifest spells it. */
export function hostName(host: string): Html {
  const note = isPlainHost(host) ? '' : html` <span class="mark">has unusual letters</span>`;
  return html`<code><bdi>${bounded(host, 253)}</bdi></code>${note}`;
}

/** A text of somebody else that is not a sentence: an address, a version, a place in a document. */
export const code = (text: unknown, max = 200): Html => html`<code>${foreign(text, max)}</code>`;

/** A link that an author wrote: its host is shown beside it, and it gets no referrer. */
export function outside(text: unknown, says: string): Html {
  const url = typeof text === 'string' ? Url.external(text) : undefined;
  if (url === undefined) return html`<span class="quiet">${says}: no https address</span>`;
  return html`<a href="${url}" rel="noreferrer noopener" target="_blank">${says}</a> <span class="quiet">(leads to ${hostName(url.host)})</span>`;
}

/** Commands with the same effect. A long line is scrolled and not broken, since a break could be copied. */
export function kubectl(...lines: readonly string[]): Html {
  return html`<h2 class="kubectl">The same with kubectl</h2>${typed(lines.join('\n'))}`;
}

/** A text of somebody else within a command, quoted so that a shell reads it as one word. */
export const word = (text: string): string =>
  /^[A-Za-z0-9._:/@%+=,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;

/** A text that is typed or pasted unchanged. */
export const typed = (text: string): Html => html`<pre class="typed" tabindex="0">${text}</pre>`;

const COMMAND = /\b((?:kubectl|helm) [^\n]*?)(?=[.:;]?(?:\n|$)|[.;:] |, which )/;

/** A message of the operator, with its commands marked as such. */
export function advice(text: string, max = 1_000): Html {
  const [before = '', ...rest] = bounded(text, max).split(COMMAND);
  // Every second piece is a command.
  const pieces = rest.map((piece, index) => (index % 2 === 0 ? code(piece, max) : foreign(piece, max)));
  return html`${foreign(before, max)}${pieces}`;
}

export type Tone = 'good' | 'warn' | 'bad';

export const card = (tone: Tone | 'notice', content: Value): Html =>
  html`<section class="card ${tone}">${content}</section>`;

export const state = (tone: Tone, says: string): Html => html`<span class="state ${tone}">${says}</span>`;

/** A state in plain words, followed by the code that logs, Events and `kubectl` use for it. */
export const coded = (tone: Tone, says: string, code: string): Html =>
  says === code ? state(tone, says) : html`${state(tone, says)} <code class="code">${code}</code>`;

/** A time of the API server, to the minute, in UTC. */
export function moment(text: string): Html {
  const [, day, minute] = /^(\d{4}-\d{2}-\d{2})T(\d{2}:\d{2}):\d{2}(?:\.\d+)?Z$/.exec(text) ?? [];
  if (day === undefined || minute === undefined) return foreign(text, 40);
  return html`<time datetime="${text}" title="${text}">${day} ${minute} UTC</time>`;
}

/** A table that becomes a list of cards on a narrow screen. */
export function table(heads: readonly string[], rows: readonly (readonly Value[])[]): Html {
  if (rows.length === 0) return html`<p class="quiet">There are none.</p>`;
  const cells = (row: readonly Value[]) =>
    row.map((cell, index) => html`<td data-label="${heads[index]}">${cell}</td>`);
  return html`<table><thead><tr>${heads.map((head) => html`<th scope="col">${head}</th>`)}</tr></thead>
<tbody>${rows.map((row) => html`<tr>${cells(row)}</tr>`)}</tbody></table>`;
}
