import { kubectl, table } from '../html/parts.ts';
import { html } from '../html/template.ts';
import { Url } from '../html/url.ts';
import type { Page } from '../http/outcome.ts';
import { listCapsules } from '../kubernetes/space.ts';
import type { Route, Visit } from '../visit.ts';
import { readiness } from './conditions.ts';

export const capsules: Route = { method: 'GET', path: '/capsules', under: 'capsules', run: capsulesPage };

async function capsulesPage(visit: Visit): Promise<Page> {
  const rows = (await listCapsules(visit)).map(({ name, cells }) => {
    const cell = (column: string) => cells.get(column) ?? '';
    const ready = cell('Ready') === 'True';
    return [
      html`<a href="${Url.path`/capsules/${name}`}">${name}</a>`,
      readiness(ready, cell('Reason')),
      `${cell('Running') || 0} of ${cell('Assistants') || 0} Ready`,
      cell('Database Used') || '–',
      cell('Storage Used') || '–',
      cell('Age'),
    ];
  });
  const list = table(['Capsule', 'State', 'Assistants', 'Database', 'Files', 'Age'], rows);
  const main = html`<p class="lead">The isolated places of this Space, in which Assistants run.</p>
${rows.length === 0 ? html`<p>There is no Capsule yet.</p>` : list}
${kubectl(`kubectl -n ${visit.names.namespace} get capsules -o wide`)}`;
  return { title: 'Capsules', main };
}
