import { kubectl, moment, table } from '../html/parts.ts';
import { html } from '../html/template.ts';
import { Url } from '../html/url.ts';
import type { Page } from '../http/outcome.ts';
import { ifAllowed } from '../kubernetes/client.ts';
import { listAssistants, listCapsules } from '../kubernetes/space.ts';
import type { Route, Visit } from '../visit.ts';
import { readiness } from './conditions.ts';
import { longTable, unread } from './long-table.ts';

export const capsules: Route = { method: 'GET', path: '/capsules', under: 'capsules', run: capsulesPage };

async function capsulesPage(visit: Visit): Promise<Page> {
  const all = await ifAllowed(listCapsules(visit));
  if (all === undefined) return byAssistants(visit);
  const list = longTable(visit, {
    ...all,
    heads: ['Capsule', 'State', 'Assistants', 'Database', 'Files', 'Created'],
    line: ({ name, created, ready, reason, assistantsReady, assistants, databaseUsed, storageUsed }) => [
      html`<a href="${Url.path`/capsules/${name}`}">${name}</a>`,
      readiness(ready === 'True', reason),
      html`<span class="whole">${assistantsReady || 0} of ${assistants || 0} ready</span>`,
      databaseUsed || '–',
      storageUsed || '–',
      moment(created),
    ],
    at: (name, part) => Url.path`/capsules?name=${name}&part=${part}`,
    what: 'Capsules',
  });
  const main = html`<p class="lead">The isolated environments of this Space in which Assistants run.</p>
${all.rows.length === 0 ? html`<p>There are no Capsules yet.</p>` : list}
${kubectl(`kubectl -n ${visit.names.namespace} get capsules -o wide`)}`;
  return { title: 'Capsules', main };
}

/** Capsules about which the API server is asked, one by one. */
const MOST_LISTED = 50;

/** For a person who may see some Capsules but not list them: those of them that have Assistants. */
async function byAssistants(visit: Visit): Promise<Page> {
  const { namespace } = visit.names;
  const assistants = await ifAllowed(listAssistants(visit));
  // Without any list there is nothing to show but the refusal.
  if (assistants === undefined) await listCapsules(visit);
  const all = [...new Set(assistants?.rows.map(({ capsule }) => capsule))];
  const names = all.slice(0, MOST_LISTED);
  const may = await Promise.all(
    names.map((name) =>
      visit.may({ group: 'platform.space', resource: 'capsules', namespace, name, verb: 'get' }),
    ),
  );
  const rows = names
    .filter((_, index) => may[index])
    .map((name) => [html`<a href="${Url.path`/capsules/${name}`}">${name}</a>`]);
  const rest =
    all.length > MOST_LISTED
      ? html`<p>There are more than ${MOST_LISTED} Capsules with Assistants. The others are not shown here, also those that you may see.</p>`
      : '';
  const main = html`<p class="quiet">You may not list Capsules: this requires <code>list</code> on <code>capsules</code>. These are the ones with Assistants that you may see; any other Capsule has the address <code>/capsules/NAME</code>.</p>${rest}${assistants?.isCut === true ? unread('Assistants', 'examined') : ''}
${table(['Capsule'], rows)}
${kubectl(`kubectl -n ${namespace} get assistants -o wide`)}`;
  return { title: 'Capsules', main };
}
