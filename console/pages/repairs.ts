import { card, foreign, kubectl, state } from '../html/parts.ts';
import { type Html, html, type Value } from '../html/template.ts';
import { Url } from '../html/url.ts';
import type { Page } from '../http/outcome.ts';
import { listAssistants, listCapsules } from '../kubernetes/space.ts';
import { postForm, type Route, type Visit } from '../visit.ts';
import { readiness } from './conditions.ts';
import { type Trouble, troublesOf } from './troubles.ts';

/** Everything that is not Ready, for a page and for the number in the sidebar. */
async function troubles(visit: Visit) {
  const [capsules, assistants] = await Promise.all([listCapsules(visit), listAssistants(visit)]);
  return troublesOf(capsules, assistants);
}

export async function countRepairs(visit: Visit): Promise<number | undefined> {
  return (await troubles(visit)).toRepair.length;
}

export const repairs: Route = { method: 'GET', path: '/', under: 'repairs', run: repairsPage };

async function repairsPage(visit: Visit): Promise<Page> {
  const { toRepair, underWay, suspended } = await troubles(visit);
  const cards = async (list: readonly Trouble[], tone: 'bad' | 'warn') =>
    Promise.all(list.slice(0, MOST_SHOWN).map(async (one) => card(tone, await described(visit, one))));
  const nothing = card('good', html`<p>${state('good', 'Nothing is to repair.')} All else is Ready.</p>`);
  const main = html`<p class="lead">What is not Ready in this Space, why, and what mends it.</p>
${toRepair.length === 0 ? nothing : html`<h2>To repair</h2>${await cards(toRepair, 'bad')}`}${more(toRepair)}
${underWay.length === 0 ? '' : html`<h2>On its way</h2>${await cards(underWay, 'warn')}${more(underWay)}`}
${suspended.length === 0 ? '' : html`<h2>Suspended by somebody</h2>${await cards(suspended, 'warn')}${more(suspended)}`}
${kubectl(`kubectl -n ${visit.names.namespace} get capsules,assistants -o wide`)}`;
  return { title: 'Repairs', main };
}

const MOST_SHOWN = 50;
const more = (list: readonly Trouble[]): Value =>
  list.length > MOST_SHOWN ? html`<p class="quiet">… and ${list.length - MOST_SHOWN} more.</p>` : '';

async function described(visit: Visit, trouble: Trouble): Promise<Html> {
  const { kind, name, reason, why } = trouble;
  return html`<div class="card-head"><h3><a href="${placeOf(trouble)}">${kind} ${name}</a></h3>${readiness(false, reason)}</div>
<p>${foreign(why, 1_000)}</p><div class="acts">${await actsOf(visit, trouble)}</div>`;
}

const placeOf = ({ kind, name, capsule }: Trouble): Url =>
  kind === 'Capsule' ? Url.path`/capsules/${name}` : Url.path`/capsules/${capsule}/assistants/${name}`;

const INPUT_REASONS = new Set([
  'InputsMissing',
  'InputSecretNotFound',
  'InputSecretRefused',
  'InputInvalid',
  'InputNeedsReentry',
  'InputReflected',
]);

/** The one act that mends it, where there is one and the person may do it. */
async function actsOf(visit: Visit, { kind, name, capsule, reason }: Trouble): Promise<Value> {
  const { namespace } = visit.names;
  const group = 'platform.space';
  // Who may do it to all of them is asked once, and not for each of fifty: it decides what is shown, and nothing that is done.
  const onCapsule = async (verb: string) => {
    const onAll = { group, resource: 'capsules', namespace, verb };
    return (await visit.may(onAll)) || visit.may({ ...onAll, name: capsule });
  };
  const place = Url.path`/capsules/${capsule}/assistants/${name}`;
  if (reason === 'Suspended' && kind === 'Capsule' && (await onCapsule('patch')))
    return postForm(visit, Url.path`/capsules/${name}/resume`, html`<button>Resume</button>`);
  if (kind === 'Capsule') return '';
  if (reason === 'Suspended' && (await onCapsule('deploy')))
    return postForm(
      visit,
      Url.path`/capsules/${capsule}/assistants/${name}/resume`,
      html`<button>Resume</button>`,
    );
  if (reason === 'ApprovalMissing' && (await onCapsule('approve')))
    return html`<a class="button" href="${place}">Review what it may do, and approve</a>`;
  if (INPUT_REASONS.has(reason) && (await visit.may({ resource: 'secrets', namespace, verb: 'create' })))
    return html`<a class="button" href="${place}">Enter the stored input</a>`;
  return '';
}
