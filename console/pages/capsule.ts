import { card, foreign, kubectl, table } from '../html/parts.ts';
import { flag, type Html, html, type Value } from '../html/template.ts';
import { Url } from '../html/url.ts';
import { type Page, Redirect } from '../http/outcome.ts';
import { changeAndRecord } from '../kubernetes/record.ts';
import {
  type CapsuleView,
  capsulePath,
  getCapsule,
  listAssistants,
  listEvents,
} from '../kubernetes/space.ts';
import { postForm, type Route, type Visit } from '../visit.ts';
import { conditionTable, readiness, readyOf } from './conditions.ts';
import { setsSection } from './credential-sets.ts';
import { longTable } from './long-table.ts';
import { quotaBars } from './quota-bars.ts';
import { QUOTA_KEYS, type QuotaProblem, quotaForm } from './quota-form.ts';
import { timeline } from './timeline.ts';

const GROUP = 'platform.space';

export const capsule: Route = {
  method: 'GET',
  path: '/capsules/:capsule',
  under: 'capsules',
  run: (visit) => capsulePage(visit, visit.params['capsule'] ?? ''),
};

export const suspendCapsule = suspension('suspend', true);
export const resumeCapsule = suspension('resume', false);

/** Suspends or resumes by the same patch as `kubectl`, with the person's rights. */
function suspension(act: string, suspend: boolean): Route {
  return {
    method: 'POST',
    path: `/capsules/:capsule/${act}`,
    under: 'capsules',
    async run(visit) {
      const name = visit.params['capsule'] ?? '';
      const path = capsulePath(visit.names.namespace, name);
      const doing = { act: suspend ? 'suspended' : 'resumed' } as const;
      await changeAndRecord(visit, path, doing, { spec: { suspend } });
      return new Redirect(Url.path`/capsules/${name}`);
    },
  };
}

export async function capsulePage(visit: Visit, name: string, problem?: QuotaProblem): Promise<Page> {
  const { namespace } = visit.names;
  const [view, { rows, isCut }, events, mayPatch, sets] = await Promise.all([
    getCapsule(visit, name),
    listAssistants(visit),
    maybeEvents(visit, 'Capsule', name),
    visit.may({ group: GROUP, resource: 'capsules', namespace, name, verb: 'patch' }),
    setsSection(visit, name),
  ]);
  const { spec, status } = view;
  const ready = readyOf(status.conditions);
  const list = longTable(visit, {
    heads: ['Assistant', 'Version', 'State', 'Why'],
    rows: rows.filter((row) => row.capsule === name),
    isCut,
    line: (row) => [
      html`<a href="${Url.path`/capsules/${name}/assistants/${row.name}`}">${row.name}</a>`,
      foreign(row.version, 40),
      readiness(row.ready === 'True', row.reason),
      row.ready === 'True' ? '' : foreign(row.why, 300),
    ],
    at: (wanted, part) => Url.path`/capsules/${name}?name=${wanted}&part=${part}`,
    what: 'Assistants',
  });
  const isSuspended = spec.suspend === true;
  const isEntered = problem !== undefined || QUOTA_KEYS.some((key) => visit.form.has(key));
  const main = html`<p class="lead">${foreign(spec.displayName ?? 'A Capsule', 80)}</p>
${mayPatch && isSuspended ? card('warn', html`<p>This Capsule is suspended: none of its Assistants runs, and its data is kept.</p>${resumeForm(visit, name)}`) : ''}
<h2>Conditions</h2>${conditionTable(status.conditions)}
<h2 id="quota">Quota and usage</h2>${quotaBars(view)}${mayPatch ? html`<details ${flag('open', isEntered)}><summary>Change the quota</summary>${quotaForm(visit, view, { problem })}</details>` : ''}
<h2>Assistants</h2>${list}
<h2>Granted integrations</h2>${grants(spec.integrations)}
${sets}
<h2>Settings</h2><dl class="facts"><dt>Approval</dt><dd>${spec.approval ?? 'auto'}</dd><dt>When deleted</dt><dd>${spec.deletionPolicy ?? 'Drop'}</dd>
<dt>Namespace</dt><dd>${status.namespace ?? '–'}</dd>${limits(view)}</dl>
<h2>History</h2>${timeline({ metadata: view.metadata, conditions: status.conditions, events })}
${mayPatch && !isSuspended ? html`<h2>Suspend</h2><p class="quiet">Stops all its Assistants and keeps its data until somebody resumes it.</p>${suspendForm(visit, name)}` : ''}
${kubectl(
  `kubectl -n ${namespace} describe capsule ${name}`,
  `kubectl -n ${namespace} get capsule ${name} --show-managed-fields -o yaml`,
  `kubectl -n ${namespace} patch capsule ${name} --type merge -p '{"spec":{"suspend":${!isSuspended}}}'`,
  `kubectl -n ${namespace} patch capsule ${name} --type merge -p '{"spec":{"quota":{"database":"2Gi"}}}'`,
)}`;
  const beside = readiness(ready?.status === 'True', ready?.reason);
  const trail = [{ to: Url.path`/capsules`, says: 'Capsules' }];
  return { title: `Capsule ${name}`, main, beside, trail, ...(problem === undefined ? {} : { status: 422 }) };
}

const resumeForm = (visit: Visit, name: string): Html =>
  postForm(visit, Url.path`/capsules/${name}/resume`, html`<button class="plain">Resume</button>`);

const suspendForm = (visit: Visit, name: string): Html =>
  postForm(
    visit,
    Url.path`/capsules/${name}/suspend`,
    html`<p><button class="grave">Suspend this Capsule</button></p>`,
  );

/** Limits whose usage is not known. */
const limits = ({ spec: { quota = {} } }: CapsuleView): Value =>
  (['cpu', 'memory', 'pods'] as const).map(
    (key) => html`<dt>Maximum ${key}</dt><dd>${quota[key] ?? 'the Space’s default'}</dd>`,
  );

function grants(integrations: CapsuleView['spec']['integrations'] = {}): Html {
  const rows = Object.entries(integrations).map(([name, one]) => [
    foreign(name, 64),
    foreign(one.scopes.join(', '), 2_000),
  ]);
  return rows.length === 0
    ? html`<p class="quiet">No integrations are granted.</p>`
    : table(['Integration', 'Scopes'], rows);
}

/** Events, if the person may see them. */
export async function maybeEvents(visit: Visit, kind: 'Capsule' | 'Assistant', name: string) {
  const { namespace } = visit.names;
  const may = await visit.may({ group: 'events.k8s.io', resource: 'events', namespace, verb: 'list' });
  return may ? listEvents(visit, kind, name) : undefined;
}
