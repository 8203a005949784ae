import { type Manifest, newPowers } from '@space/manifests';
import { code, foreign, hostName, outside, state, table } from '../html/parts.ts';
import { type Html, html, type Value } from '../html/template.ts';
import type { Running } from '../kubernetes/running.ts';
import type { AssistantView } from '../kubernetes/space.ts';
import { type Change, manifestChanges } from './manifest-changes.ts';

/**
 * What a person examines before they approve a manifest: new powers first, then removed powers, then all other changes.
 */
export function difference(running: Running, next: Manifest): Html {
  switch (running.is) {
    case 'nothing':
      return html`<p>It does not run yet, so everything that it may do is new.</p>`;
    case 'hidden':
      return html`<p class="quiet">You may not see the running manifest, so nothing is compared here. This requires <code>get</code> on the Capsule, and on <code>deployments</code> and <code>configmaps</code> in the Capsule’s namespace.</p>`;
    case 'known':
      return compared(running.manifest, next);
  }
}

function compared(before: Manifest, next: Manifest): Html {
  const changes = manifestChanges(before, next);
  if (changes.length === 0) return html`<p>${state('good', 'Unchanged')} Exactly this manifest runs.</p>`;
  const versions =
    before.platform.version === next.platform.version
      ? html`version ${foreign(next.platform.version, 40)}, as before`
      : html`version ${foreign(before.platform.version, 40)} → ${foreign(next.platform.version, 40)}`;
  const gained = newPowers(before, next).map(
    ({ says }) => html`<li>${state('warn', 'new')} it ${foreign(says, 600)}</li>`,
  );
  const lost = newPowers(next, before).map(
    ({ says }) => html`<li>${state('good', 'no longer')} it ${foreign(says, 600)}</li>`,
  );
  const powers = gained.length === 0 ? html`<p>It may do nothing that it could not do before.</p>` : '';
  return html`<p>A different manifest runs: ${versions}.</p>${powers}<ul class="plain-list">${gained}${lost}</ul>${changeTable(changes)}`;
}

function changeTable(changes: readonly Change[]): Html {
  const rows = changes
    .slice(0, MOST_SHOWN)
    .map(({ pointer, before, after }) => [
      html`${before === undefined ? 'Added' : after === undefined ? 'Removed' : 'Changed'} ${code(pointer, 200)}`,
      said(before),
      said(after),
    ]);
  const more =
    changes.length > MOST_SHOWN
      ? html`<p class="quiet">… and ${changes.length - MOST_SHOWN} more changes.</p>`
      : '';
  const says = changes.length === 1 ? 'The one change' : `All ${changes.length} changes`;
  return html`<details><summary>${says}</summary>${table(['What', 'Runs now', 'This manifest'], rows)}${more}</details>`;
}

const MOST_SHOWN = 200;
const said = (text: string | undefined): Value => (text === undefined ? '–' : foreign(text, 600));

/** The description in the manifest, and its whole text. */
export function manifestSection({ spec }: AssistantView, manifest: Manifest): Html {
  const { platform, network } = manifest;
  const hosts =
    network.allowed_hosts.length === 0
      ? 'none'
      : network.allowed_hosts.map((host) => html`${hostName(host)} `);
  const shown = {
    ...manifest,
    platform: { ...platform, genesis: `(${platform.genesis.length} characters)` },
  };
  return html`<h2>Manifest</h2><dl class="facts"><dt>Name</dt><dd>${foreign(platform.name, 80)}</dd><dt>Version</dt><dd>${foreign(platform.version, 40)}</dd>
<dt>Summary</dt><dd>${foreign(platform.summary, 80)}</dd><dt>Description</dt><dd>${foreign(platform.description, 400)}</dd>
<dt>Creators</dt><dd>${foreign(platform.creators.join(', '), 600)}</dd><dt>Source</dt><dd>${outside(platform.github, 'Repository')}</dd>
<dt>Image</dt><dd>${code(spec.image, 512)}</dd>
<dt>Hosts</dt><dd>${hosts}</dd></dl>
<details><summary>The whole manifest</summary><pre>${JSON.stringify(shown, null, 2)}</pre></details>
<details><summary>Genesis, the text that it begins with</summary><pre>${platform.genesis}</pre></details>`;
}
