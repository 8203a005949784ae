import { checkManifest, type Manifest, manifestDigest, newPowers } from '@space/manifests';
import { card, foreign, hostName, kubectl, outside, state } from '../html/parts.ts';
import { type Html, html } from '../html/template.ts';
import { Url } from '../html/url.ts';
import { notFound, type Page } from '../http/outcome.ts';
import { KubernetesError } from '../kubernetes/client.ts';
import { type Running, runningManifest } from '../kubernetes/running.ts';
import { type AssistantView, getAssistant, getCapsule } from '../kubernetes/space.ts';
import { postForm, type Route, type Visit } from '../visit.ts';
import { callsSection } from './calls.ts';
import { maybeEvents } from './capsule.ts';
import { conditionTable, readiness, readyOf } from './conditions.ts';
import { powersList, powersPicture, reachesOf } from './powers-picture.ts';
import { ownUse, quotaBars } from './quota-bars.ts';
import { type InputProblem, inputsSection } from './stored-inputs.ts';
import { APPROVED, APPROVED_BY, approver, installer, timeline } from './timeline.ts';

export const assistant: Route = {
  method: 'GET',
  path: '/capsules/:capsule/assistants/:assistant',
  under: 'capsules',
  run: (visit) => assistantPage(visit),
};

/** The Assistant that an address names, when it is in the Capsule that the address names. */
export async function assistantOf(visit: Visit): Promise<AssistantView> {
  const view = await getAssistant(visit, visit.params['assistant'] ?? '');
  if (view.spec.capsule !== visit.params['capsule']) throw notFound();
  return view;
}

/** Of the manifest as the operator reads and names it; undefined of one that is none. */
export function digestOf(view: AssistantView): string | undefined {
  const checked = checkManifest(view.spec.manifest);
  return checked.ok ? `sha256:${manifestDigest(checked.manifest)}` : undefined;
}

/** `problem` is what is wrong with a value that somebody entered, told beside its field. */
export async function assistantPage(visit: Visit, problem?: InputProblem): Promise<Page> {
  const view = await assistantOf(visit);
  const { name } = view.metadata;
  const capsule = view.spec.capsule ?? '';
  const checked = checkManifest(view.spec.manifest);
  const [events, place] = await Promise.all([
    maybeEvents(visit, 'Assistant', name),
    getCapsule(visit, capsule).catch(notThere),
  ]);
  const ready = readyOf(view.status.conditions);
  const about = checked.ok
    ? await understood(visit, view, checked.manifest, { namespace: place?.status.namespace, problem })
    : html`<p class="problem">Its manifest is not valid; the condition Accepted says where.</p>`;
  const mayDeploy = await mayOn(visit, capsule, 'deploy');
  const isSuspended = view.spec.suspend === true;
  const main = html`${checked.ok ? html`<p class="lead">${foreign(checked.manifest.platform.summary, 80)}</p>` : ''}
${mayDeploy && isSuspended ? card('warn', html`<p>Somebody suspended it: it does not run, and its data is kept.</p>${suspension(visit, view)}`) : ''}
<h2>Conditions</h2>${conditionTable(view.status.conditions)}
${about}<h2>What it takes</h2>${ownUse(view)}${place === undefined ? '' : html`<h3>What all Assistants of its Capsule take, whose quota they share</h3>${quotaBars(place)}`}<h2>What happened</h2>${timeline({ metadata: view.metadata, conditions: view.status.conditions, events })}
${mayDeploy && !isSuspended ? html`<h2>Suspend</h2><p class="quiet">Stops it and keeps its data, until somebody resumes it.</p>${suspension(visit, view)}` : ''}
${kubectl(
  `kubectl -n ${visit.names.namespace} describe assistant ${name}`,
  `kubectl -n ${visit.names.namespace} get assistant ${name} -o jsonpath='{.spec.manifest}'`,
  `kubectl -n ${visit.names.namespace} get assistant ${name} --show-managed-fields -o yaml`,
  `kubectl -n ${visit.names.namespace} annotate --overwrite assistant ${name} ${APPROVED}=${digestOf(view) ?? 'DIGEST'} \\
  ${APPROVED_BY}="${digestOf(view) ?? 'DIGEST'} $(kubectl auth whoami -o jsonpath='{.status.userInfo.username}')"`,
)}`;
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

/** The Capsule may be gone, or not for this person to see; the Assistant is shown all the same. */
function notThere(error: unknown): undefined {
  if (error instanceof KubernetesError && (error.status === 403 || error.status === 404)) return undefined;
  throw error;
}

/** Whether the person has one of our own verbs on the Capsule. */
const mayOn = (visit: Visit, capsule: string, verb: string): Promise<boolean> =>
  visit.may({
    group: 'platform.space',
    resource: 'capsules',
    namespace: visit.names.namespace,
    name: capsule,
    verb,
  });

function suspension(visit: Visit, { metadata: { name }, spec }: AssistantView): Html {
  const capsule = spec.capsule ?? '';
  return spec.suspend === true
    ? postForm(visit, Url.path`/capsules/${capsule}/assistants/${name}/resume`, html`<button>Resume</button>`)
    : postForm(
        visit,
        Url.path`/capsules/${capsule}/assistants/${name}/suspend`,
        html`<p><button class="grave">Suspend this Assistant</button></p>`,
      );
}

async function understood(
  visit: Visit,
  view: AssistantView,
  manifest: Manifest,
  {
    namespace,
    problem,
  }: { readonly namespace: string | undefined; readonly problem: InputProblem | undefined },
): Promise<Html> {
  const { platform } = manifest;
  const reaches = reachesOf(manifest);
  const running = await runningManifest(visit, namespace, platform.id);
  return html`<h2>What it may do</h2>${powersPicture(platform.name, reaches)}${powersList(reaches)}
${await callsSection(visit, view, manifest)}
<h2>What is new against what runs</h2>${difference(running, manifest)}
<h2>Who let it in</h2><p>${installer(view.metadata)}</p>${await approval(visit, view)}
${await inputsSection(visit, { view, manifest, problem })}
<h2>Manifest</h2><dl class="facts"><dt>Name</dt><dd>${foreign(platform.name, 80)}</dd><dt>Version</dt><dd>${foreign(platform.version, 40)}</dd>
<dt>Summary</dt><dd>${foreign(platform.summary, 80)}</dd><dt>Description</dt><dd>${foreign(platform.description, 400)}</dd>
<dt>By</dt><dd>${foreign(platform.creators.join(', '), 600)}</dd><dt>Source</dt><dd>${outside(platform.github, 'Repository')}</dd>
<dt>Image</dt><dd><code>${foreign(view.spec.image, 512)}</code></dd>
<dt>Hosts</dt><dd>${manifest.network.allowed_hosts.length === 0 ? 'none' : manifest.network.allowed_hosts.map((host) => html`${hostName(host)} `)}</dd></dl>
<details><summary>All of it</summary><pre>${JSON.stringify({ ...manifest, platform: { ...platform, genesis: `(${platform.genesis.length} characters)` } }, null, 2)}</pre></details>
<details><summary>Genesis, the text that it starts from</summary><pre>${platform.genesis}</pre></details>`;
}

function difference(running: Running, next: Manifest): Html {
  switch (running.is) {
    case 'nothing':
      return html`<p>Nothing of it runs yet: all of the above is new.</p>`;
    case 'hidden':
      return html`<p class="quiet">You may not see what runs: it takes <code>get</code> on deployments and configmaps in the Capsule’s namespace.</p>`;
    case 'known': {
      const powers = newPowers(running.manifest, next);
      const list = powers.map(
        ({ says, pointer }) =>
          html`<li>${state('warn', 'new')} it ${foreign(says, 600)} <code class="quiet">${pointer}</code></li>`,
      );
      const versions = `${running.manifest.platform.version} → ${next.platform.version}`;
      return html`<p>${foreign(versions, 100)}</p>${powers.length === 0 ? html`<p>It may do nothing that it could not do before.</p>` : html`<ul>${list}</ul>`}`;
    }
  }
}

/** The form names the very digest that is on this page. */
async function approval(visit: Visit, view: AssistantView): Promise<Html> {
  const { name, annotations } = view.metadata;
  const capsule = view.spec.capsule ?? '';
  const digest = digestOf(view);
  const shown = html`<p>Digest of this manifest: <code>${digest}</code></p>`;
  if (annotations[APPROVED] === digest)
    return html`${shown}<p>${state('good', 'Approved.')} ${approver(view.metadata)}</p>`;
  const may = await mayOn(visit, capsule, 'approve');
  const before =
    annotations[APPROVED] === undefined
      ? 'It is not approved.'
      : 'Another manifest is approved, and not this one.';
  if (!may)
    return html`${shown}<p>${before} Who has the verb <code>approve</code> on the Capsule may do that.</p>`;
  const action = Url.path`/capsules/${capsule}/assistants/${name}/approve`;
  const form = postForm(
    visit,
    action,
    html`<input type="hidden" name="digest" value="${digest}"><button>Approve exactly this manifest</button>`,
  );
  return card(
    'notice',
    html`<p>${before} It counts in Capsules with <code>approval: manual</code>.</p>${shown}${form}`,
  );
}
