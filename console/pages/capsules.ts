import { kubectl, moment } from '../html/parts.ts';
import { html } from '../html/template.ts';
import { Url } from '../html/url.ts';
import type { Page } from '../http/outcome.ts';
import { listCapsules } from '../kubernetes/space.ts';
import type { Route, Visit } from '../visit.ts';
import { readiness } from './conditions.ts';
import { longTable } from './long-table.ts';

export const capsules: Route = { method: 'GET', path: '/capsules', under: 'capsules', run: capsulesPage };

async function capsulesPage(visit: Visit): Promise<Page> {
  const rows = await listCapsules(visit);
  const list = longTable(visit, {
    heads: ['Capsule', 'State', 'Assistants', 'Database', 'Files', 'Created'],
    rows,
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
${rows.length === 0 ? html`<p>There are no Capsules yet.</p>` : list}
${kubectl(`kubectl -n ${visit.names.namespace} get capsules -o wide`)}`;
  return { title: 'Capsules', main };
}
