import { type Html, html, script, type Value } from '../html/template.ts';
import { Url } from '../html/url.ts';
import type { Assets } from '../http/assets.ts';
import type { Page } from '../http/outcome.ts';
import { postForm, type Section, type Visit } from '../visit.ts';

export interface Frame extends Pick<Page, 'title' | 'main' | 'beside' | 'trail'> {
  readonly assets: Assets;
  /** Whether the page is not updated: the answer to a form has no address that could be requested again. */
  readonly isStill?: boolean;
}

const SIGN = html`<svg viewBox="0 0 24 24" aria-hidden="true"><rect x="3" y="3" width="18" height="18" rx="5"></rect><rect x="9" y="9" width="6" height="6" rx="2"></rect></svg>`;

/** A whole document. */
function document({ assets, title, main: body }: Frame, space: string, code: Value = ''): Html {
  return html`<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>${title} · ${space}</title>
<link rel="stylesheet" href="${assets.stylesheet.url}">${code}</head><body>${body}</body></html>`;
}

/** A page for somebody who is not signed in. */
export const alone = (frame: Frame, space: string): Html =>
  document({ ...frame, main: html`<main class="alone" id="main">${frame.main}</main>` }, space);

/** `more` is the rest of a label, which only screen readers get where there is little room. */
const LINKS: readonly {
  readonly section: Section;
  readonly to: Url;
  readonly says: string;
  readonly more?: string;
}[] = [
  { section: 'repairs', to: Url.path`/`, says: 'Repairs' },
  { section: 'capsules', to: Url.path`/capsules`, says: 'Capsules' },
  { section: 'sandbox', to: Url.path`/sandbox`, says: 'Sandbox', more: ' and brokers' },
  { section: 'diagnostics', to: Url.path`/diagnostics`, says: 'Diagnostics' },
];

/** A page with the sidebar. `repairs` is undefined if the person may not see what has to be repaired. */
export function framed(
  visit: Visit,
  frame: Frame & { readonly under: Section; readonly repairs: number | undefined },
): Html {
  const { names, session } = visit;
  const count = (section: Section) =>
    section === 'repairs' && (frame.repairs ?? 0) > 0
      ? html`<span class="count">${frame.repairs}<span class="hidden"> to repair</span></span>`
      : '';
  const links = LINKS.map(
    ({ section, to, says, more = '' }) =>
      html`<li><a href="${to}" aria-current="${section === frame.under ? 'page' : 'false'}"><span>${says}<span class="long">${more}</span></span>${count(section)}</a></li>`,
  );
  const main = html`<a class="skip" href="${Url.here('main')}">Skip to the content</a>
<div class="frame"><nav class="side" aria-label="Space"><p class="space-name">${SIGN}${names.space}</p>
<ul class="links">${links}</ul>
<div class="who"><p class="user" title="${session.user}">${session.user.replace(/^system:serviceaccount:/, '')}</p>${postForm(visit, Url.path`/sign-out`, html`<button class="plain">Sign out</button>`)}</div></nav>
<main class="main" id="main" tabindex="-1">${trailOf(frame)}<div class="top"><h1>${frame.title}</h1>${frame.beside}</div>${frame.main}</main></div>`;
  const code = frame.isStill === true ? '' : script(frame.assets.script.url);
  return document({ ...frame, main }, names.space, code);
}

function trailOf({ trail = [] }: Frame): Value {
  if (trail.length === 0) return '';
  return html`<nav aria-label="Pages above this one"><ol class="trail">${trail.map(({ to, says }) => html`<li><a href="${to}">${says}</a></li>`)}</ol></nav>`;
}
