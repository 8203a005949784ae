import { advice, code, foreign, kubectl, moment, state, table } from '../html/parts.ts';
import { type Html, html, type Value } from '../html/template.ts';
import type { Page } from '../http/outcome.ts';
import { anyCapsule } from '../kubernetes/space.ts';
import type { Certificate } from '../machinery/certificates.ts';
import { type Listed, MOST_ITEMS } from '../machinery/may-list.ts';
import type { Node, RuntimeClass } from '../machinery/nodes.ts';
import type { Probe } from '../machinery/probes.ts';
import type { Program } from '../machinery/programs.ts';
import type { Route, Visit } from '../visit.ts';
import { isWell, reasonOf } from './conditions.ts';
import { daysLeft, SOON_DAYS } from './machinery-troubles.ts';

export const sandbox: Route = { method: 'GET', path: '/sandbox', under: 'sandbox', run: sandboxPage };

async function sandboxPage(visit: Visit): Promise<Page> {
  const { systemNamespace, servicesNamespace } = visit.names;
  const [gate, machinery] = await Promise.all([gateSection(visit), visit.machineryOf(visit, true)]);
  const { at, programs, probes, nodes, classes, certificates } = machinery;
  const runtime = `the role ${visit.names.space}-space-runtime in ${systemNamespace} and ${servicesNamespace}`;
  const cluster = `the role ${visit.names.space}-space-cluster`;
  const main = html`<p class="lead">The sandbox between Assistants and nodes, and the programs of this Space, as far as you may see them.</p>
${gate}
<h2 id="nodes">Nodes</h2>${orHidden(nodes, nodeTable, cluster)}${classes === undefined ? '' : classLine(classes.items)}
<h2 id="probes">Probes</h2>${orHidden(probes, probeTable, runtime)}
<h2 id="programs">Programs</h2>${orHidden(programs, programTable, runtime)}
<h2 id="certificates">Certificates</h2>${orHidden(certificates && { items: certificates, isCut: false }, (all) => certificateTable(all, at), runtime)}
${kubectl(
  'kubectl get runtimeclasses,nodes -o wide',
  `kubectl -n ${systemNamespace} get pods -l 'platform.space/component in (sandbox-probe,network-probe)' -o wide`,
  `kubectl -n ${systemNamespace} get deployments -o wide`,
  `kubectl -n ${servicesNamespace} get deployments,statefulsets -o wide`,
  `kubectl -n ${servicesNamespace} get configmap space-ca -o jsonpath='{.data.ca\\.crt}' | openssl x509 -noout -enddate`,
)}`;
  return { title: 'Sandbox and brokers', main };
}

function orHidden<T>(list: Listed<T> | undefined, show: (list: readonly T[]) => Html, takes: string): Html {
  if (list === undefined) return html`<p class="quiet">You may not see these: this requires ${takes}.</p>`;
  const rest = list.isCut
    ? html`<p>There are more than ${MOST_ITEMS.toLocaleString('en')}. The others are not shown here.</p>`
    : '';
  return html`${show(list.items)}${rest}`;
}

const GATE = [
  ['SandboxReady', 'Sandbox: whether Assistants are scheduled'],
  ['NetworkReady', 'Network: whether the network policies are enforced'],
] as const;

/** The operator writes its verdict into each Capsule, so any of them shows it. */
async function gateSection(visit: Visit): Promise<Html> {
  const conditions = (await anyCapsule(visit))?.status.conditions;
  if (conditions === undefined)
    return html`<h2>Verdict of the gate</h2><p class="quiet">No Capsule that you may see reports it.</p>`;
  const rows = GATE.flatMap(([type, says]) => {
    const told = conditions.find((one) => one.type === type);
    if (told === undefined) return [];
    const tone = isWell(told) ? 'good' : told.status === 'False' ? 'bad' : 'warn';
    return [[says, reasonOf(tone, told.reason), advice(told.message), moment(told.lastTransitionTime)]];
  });
  return html`<h2>Verdict of the gate</h2>${table(['Gate', 'Verdict', 'Why', 'Since'], rows)}`;
}

const SANDBOX: Readonly<Record<Node['sandbox'], Html>> = {
  there: state('good', 'installed'),
  missing: state('bad', 'missing'),
  'not-asked': html`<span class="quiet">no Assistants there</span>`,
  unknown: state('warn', 'not reported'),
};

const nodeTable = (nodes: readonly Node[]): Html =>
  table(
    ['Node', 'Sandbox', 'Handlers', 'Kubelet', 'Runtime'],
    nodes.map(({ name, sandbox, handlers, kubelet, runtime }) => [
      name,
      SANDBOX[sandbox],
      foreign(handlers.join(', ') || '–', 200),
      foreign(kubelet || '–', 60),
      foreign(runtime || '–', 60),
    ]),
  );

const classLine = (classes: readonly RuntimeClass[]): Html =>
  html`<p class="quiet">Runtime classes: ${
    classes.length === 0
      ? 'none'
      : classes.map(
          ({ name, handler }, index) =>
            html`${index === 0 ? '' : ', '}${code(name, 63)} with handler ${code(handler, 63)}`,
        )
  }.</p>`;

const VERDICT: Readonly<Record<Probe['verdict'], Html>> = {
  passed: state('good', 'passed'),
  failed: state('bad', 'failed'),
  running: state('warn', 'running'),
};

const probeTable = (probes: readonly Probe[]): Html =>
  table(
    ['Node', 'Tests', 'Verdict', 'What it found', 'At'],
    probes.map(({ node, asks, verdict, found, at }) => [
      node === '' ? 'not scheduled yet' : node,
      asks,
      VERDICT[verdict],
      found === '' ? '–' : foreign(found, 300),
      moment(at),
    ]),
  );

const programTable = (programs: readonly Program[]): Html =>
  table(
    ['Program', 'Ready', 'Version', 'Image', 'Namespace'],
    programs.map(({ name, ready, wanted, version, images, namespace }) => [
      name,
      state(ready >= wanted ? 'good' : 'bad', `${ready} of ${wanted}`),
      version === '' ? '–' : foreign(version, 40),
      images.map((image) => imageOf(image)),
      namespace,
    ]),
  );

/** An image by its name and tag, with the first digits of its digest, so that it fits in a line. */
function imageOf(image: string): Html {
  const [name = '', digest] = image.split('@sha256:');
  const short = name.split('/').at(-1) ?? name;
  const rest = digest === undefined ? '' : html` <code class="code">${digest.slice(0, 12)}</code>`;
  return html`<div title="${image}">${code(short, 120)}${rest}</div>`;
}

function certificateTable(certificates: readonly Certificate[], at: Date): Html {
  const rows = certificates.map(({ of, ends, renewedBy, advice: todo }): readonly Value[] => {
    if (ends === undefined) return [of, state('warn', 'not known'), '–', renewedBy];
    const days = daysLeft(ends, at);
    const says = days < 0 ? 'expired' : days === 1 ? '1 day' : `${days} days`;
    const isNear = days < SOON_DAYS;
    const tone = days < 0 ? 'bad' : isNear ? 'warn' : 'good';
    return [of, state(tone, says), moment(ends.toISOString()), isNear ? advice(todo) : renewedBy];
  });
  return html`${table(['Certificate of', 'Time left', 'Expires', 'Renewed by'], rows)}<p class="quiet">For services that the console connects to, this is the certificate that they present; for others, it is the one that was signed for them. The console does not know the certificates of your own servers, nor those of your own authority for services that it does not connect to: the alert on certificates covers each service (monitoring.rules of the chart).</p>`;
}
