import { checkManifest, type Manifest } from '@space/manifests';
import { card, foreign } from '../html/parts.ts';
import { type Html, html, type Value } from '../html/template.ts';
import { Url } from '../html/url.ts';
import { notFound, type Page } from '../http/outcome.ts';
import { type Place, placeOf, runningManifest } from '../kubernetes/running.ts';
import { type AssistantView, getAssistant } from '../kubernetes/space.ts';
import { mayOn, postForm, type Route, type Visit } from '../visit.ts';
import { approvalSection } from './approval-section.ts';
import { assistantCommands } from './assistant-commands.ts';
import { callsSection } from './calls.ts';
import { maybeEvents } from './capsule.ts';
import { conditionTable, readiness, readyOf } from './conditions.ts';
import { difference, manifestSection } from './manifest-section.ts';
import { powersList, powersPicture, reachesOf } from './powers-picture.ts';
import { ownUse, quotaBars } from './quota-bars.ts';
import { type InputProblem, inputsSection } from './stored-inputs.ts';
import { installer, timeline } from './timeline.ts';

export const assistant: Route = {
  method: 'GET',
  path: '/capsules/:capsule/assistants/:assistant',
  under: 'capsules',
  run: (visit) => assistantPage(visit),
};

/** The Assistant in the page's address, if it is in the Capsule in that address. */
export async function assistantOf(visit: Visit): Promise<AssistantView> {
  const view = await getAssistant(visit, visit.params['assistant'] ?? '');
  if (view.spec.capsule !== visit.params['capsule']) throw notFound();
  return view;
}

export async function assistantPage(visit: Visit, problem?: InputProblem): Promise<Page> {
  const { capsule = '', assistant: name = '' } = visit.params;
  const [view, events, place, mayDeploy] = await Promise.all([
    assistantOf(visit),
    maybeEvents(visit, 'Assistant', name),
    placeOf(visit, capsule),
    mayOn(visit, capsule, 'deploy'),
  ]);
  const checked = checkManifest(view.spec.manifest);
  const [powers, inputs, calls] = checked.ok
    ? await Promise.all([
        powersSection(visit, { view, place }, checked.manifest),
        inputsSection(visit, { view, manifest: checked.manifest, problem }),
        callsSection(visit, view, checked.manifest),
      ])
    : [html`<p class="problem">Its manifest is not valid; the condition Accepted says where.</p>`];
  const { conditions } = view.status;
  const main = html`${checked.ok ? html`<p class="lead">${foreign(checked.manifest.platform.summary, 80)}</p>` : ''}
${standing(visit, view, mayDeploy)}
${powers}
<h2>Conditions</h2>${conditionTable(conditions)}
${inputs ?? ''}
${calls ?? ''}
<h2>Usage</h2>${ownUse(view)}${place.is === 'known' ? html`<h3>Usage of the whole Capsule, whose Assistants share its quota</h3>${quotaBars(place.capsule)}` : ''}
<h2>History</h2>${timeline({ metadata: view.metadata, conditions, events })}
${checked.ok ? manifestSection(view, checked.manifest) : ''}
${mayDeploy && view.spec.suspend !== true ? html`<h2>Suspend</h2><p class="quiet">Stops it and keeps its data until somebody resumes it.</p>${suspension(visit, view)}` : ''}
${assistantCommands(visit.names, view)}`;
  const ready = readyOf(conditions);
  return {
    title: `Assistant ${name}`,
    main,
    beside: readiness(ready?.status === 'True', ready?.reason),
    trail: [
      { to: Url.path`/capsules`, says: 'Capsules' },
      { to: Url.path`/capsules/${capsule}`, says: capsule },
    ],
    ...(problem === undefined ? {} : { status: 422 }),
  };
}

/** Says at the top that the Assistant is suspended, with a button to resume it. */
function standing(visit: Visit, view: AssistantView, mayDeploy: boolean): Value {
  if (view.spec.suspend !== true) return '';
  const resume = mayDeploy ? suspension(visit, view) : '';
  return card(
    'warn',
    html`<p>This Assistant is suspended: it does not run, and its data is kept.</p>${resume}`,
  );
}

/** What the Assistant may do, what of it is new, and who approved it: what a person examines before an approval. */
async function powersSection(
  visit: Visit,
  { view, place }: { readonly view: AssistantView; readonly place: Place },
  manifest: Manifest,
): Promise<Html> {
  const { platform } = manifest;
  const reaches = reachesOf(manifest);
  const [running, approval] = await Promise.all([
    runningManifest(visit, place, view),
    approvalSection(visit, view),
  ]);
  return html`<h2>What it may do</h2>${powersPicture(platform.name, reaches)}${powersList(reaches)}
<h2>Changes from the running manifest</h2>${difference(running, manifest)}
<h2>Installation and approval</h2><p>${installer(view.metadata)}</p>${approval}`;
}

function suspension(visit: Visit, { metadata: { name }, spec }: AssistantView): Html {
  const capsule = spec.capsule ?? '';
  return spec.suspend === true
    ? postForm(
        visit,
        Url.path`/capsules/${capsule}/assistants/${name}/resume`,
        html`<button class="plain">Resume</button>`,
      )
    : postForm(
        visit,
        Url.path`/capsules/${capsule}/assistants/${name}/suspend`,
        html`<p><button class="grave">Suspend this Assistant</button></p>`,
      );
}
