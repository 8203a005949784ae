import { advice, card, foreign, kubectl, moment, state } from '../html/parts.ts';
import { type Html, html, type Value } from '../html/template.ts';
import { Url } from '../html/url.ts';
import type { Page } from '../http/outcome.ts';
import { ifAllowed } from '../kubernetes/client.ts';
import { listAssistants, listCapsules } from '../kubernetes/space.ts';
import { MOST_ITEMS } from '../machinery/may-list.ts';
import type { Route, Visit } from '../visit.ts';
import { readiness } from './conditions.ts';
import { unread } from './long-table.ts';
import { machineryTroubles } from './machinery-troubles.ts';
import { actOf } from './repair-acts.ts';
import { type Trouble, type Troubles, troublesOf } from './troubles.ts';

interface Found extends Troubles {
  /** Whether there are more programs, nodes or probes than were examined. */
  readonly isCut: boolean;
  /** Whether there are more Capsules or Assistants than were examined. */
  readonly isLong: boolean;
  /** What the person may not list. */
  readonly unseen: 'Capsules' | 'Assistants' | undefined;
}

/** Everything that is not Ready, for the page and for the number in the sidebar. */
async function troubles(visit: Visit, isFresh: boolean): Promise<Found> {
  const [capsules, assistants, machinery] = await Promise.all([
    ifAllowed(listCapsules(visit)),
    ifAllowed(listAssistants(visit)),
    visit.machineryOf(visit, isFresh),
  ]);
  // Without both there is nothing to show but the refusal.
  const unseen = capsules === undefined ? 'Capsules' : assistants === undefined ? 'Assistants' : undefined;
  if (capsules === undefined && assistants === undefined) await listCapsules(visit);
  const { programs, probes, nodes } = machinery;
  const isCut = [programs, probes, nodes].some((list) => list?.isCut === true);
  const isLong = [capsules, assistants].some((list) => list?.isCut === true);
  const found = troublesOf(machineryTroubles(machinery), capsules?.rows ?? [], assistants?.rows ?? []);
  return { ...found, isCut, isLong, unseen };
}

export async function countRepairs(visit: Visit): Promise<number | undefined> {
  return (await troubles(visit, false)).toRepair.length;
}

export const repairs: Route = { method: 'GET', path: '/', under: 'repairs', run: repairsPage };

async function repairsPage(visit: Visit): Promise<Page> {
  const { toRepair, underWay, suspended, isCut, isLong, unseen } = await troubles(visit, true);
  const { namespace, systemNamespace, servicesNamespace } = visit.names;
  const nothing = card(
    'good',
    html`<p>${state('good', 'Nothing needs repair.')} Everything else is Ready.</p>`,
  );
  const rest = isCut
    ? html`<p>There are more than ${MOST_ITEMS.toLocaleString('en')} nodes, programs or probes. The others are not examined here.</p>`
    : '';
  const main = html`<p class="lead">What is wrong in this Space, why, and how to repair it.</p>${rest}${isLong ? unread('Capsules or Assistants', 'examined') : ''}${unseen === undefined ? '' : unlisted(unseen)}
${toRepair.length === 0 ? nothing : html`<h2>To repair</h2>${await cards(visit, toRepair, 'bad')}`}
${underWay.length === 0 ? '' : html`<h2>In progress</h2>${await cards(visit, underWay, 'warn')}`}
${suspended.length === 0 ? '' : html`<h2>Suspended</h2>${await cards(visit, suspended, 'warn')}`}
${kubectl(
  `kubectl -n ${namespace} get capsules,assistants -o wide`,
  `kubectl -n ${systemNamespace} get deployments,pods`,
  `kubectl -n ${servicesNamespace} get deployments,statefulsets`,
)}`;
  return { title: 'Repairs', main };
}

const unlisted = (what: 'Capsules' | 'Assistants'): Html =>
  html`<p class="quiet">You may not list ${what}, so they are missing here. This requires <code>list</code> on <code>${what.toLowerCase()}</code>.</p>`;

const MOST_SHOWN = 50;

/** The first act of a page that repairs something is emphasised; resuming a suspended object never is. */
async function cards(visit: Visit, list: readonly Trouble[], tone: 'bad' | 'warn'): Promise<readonly Html[]> {
  const shown = list.slice(0, MOST_SHOWN);
  const acts = await Promise.all(shown.map((one) => actOf(visit, one)));
  const first = tone === 'bad' ? acts.findIndex((act) => act !== undefined) : -1;
  const all = shown.map((one, index) => card(tone, described(one, acts[index]?.(index === first) ?? '')));
  const left = list.length - shown.length;
  return left === 0 ? all : [...all, html`<p class="quiet">… and ${left} more.</p>`];
}

function described(trouble: Trouble, act: Value): Html {
  const { kind, name, reason, why, since } = trouble;
  const when = since === '' ? '' : html`<span class="since">since ${moment(since)}</span>`;
  return html`<div class="card-head"><h3><a href="${placeOf(trouble)}">${kind} ${kind === 'Probe' ? '' : foreign(name, 63)}</a></h3><div class="card-state">${readiness(false, reason)}${when}</div></div>
<p>${advice(why, 1_000)}</p><div class="acts">${act}</div>`;
}

function placeOf({ kind, name, capsule }: Trouble): Url {
  switch (kind) {
    case 'Capsule':
      return Url.path`/capsules/${name}`;
    case 'Assistant':
      return Url.path`/capsules/${capsule}/assistants/${name}`;
    case 'Program':
      return Url.path`/sandbox#programs`;
    case 'Node':
      return Url.path`/sandbox#nodes`;
    case 'Probe':
      return Url.path`/sandbox#probes`;
    case 'Certificate':
      return Url.path`/sandbox#certificates`;
  }
}
