import * as z from 'zod';
import { foreign, kubectl, state, table } from '../html/parts.ts';
import { type Html, html, type Value } from '../html/template.ts';
import type { Page } from '../http/outcome.ts';
import type { Act } from '../kubernetes/access.ts';
import { apiPath } from '../kubernetes/client.ts';
import type { Route, Visit } from '../visit.ts';

export const sandbox: Route = { method: 'GET', path: '/sandbox', under: 'sandbox', run: sandboxPage };

const list = <T extends z.ZodType>(item: T) => z.object({ items: z.array(item) });
const named = z.object({ name: z.string() });
const nodes = list(
  z.object({
    metadata: named,
    status: z
      .object({
        nodeInfo: z.object({ containerRuntimeVersion: z.string().optional() }).optional(),
        runtimeHandlers: z.array(z.object({ name: z.string().default('') })).nullish(),
      })
      .default({}),
  }),
);
const classes = list(z.object({ metadata: named, handler: z.string() }));
const pods = list(
  z.object({
    metadata: named,
    spec: z.object({ nodeName: z.string().optional() }).default({}),
    status: z.object({ phase: z.string().optional() }).default({}),
  }),
);
const deployments = list(
  z.object({
    metadata: named,
    spec: z.object({
      replicas: z.number().default(1),
      template: z.object({
        spec: z.object({ containers: z.array(z.object({ image: z.string().default('') })) }),
      }),
    }),
    status: z.object({ readyReplicas: z.number().default(0) }).default({ readyReplicas: 0 }),
  }),
);

async function sandboxPage(visit: Visit): Promise<Page> {
  const { systemNamespace, servicesNamespace } = visit.names;
  const sections = await Promise.all([
    runtimeClassSection(visit),
    nodeSection(visit),
    probeSection(visit),
    programSection(visit, systemNamespace),
    programSection(visit, servicesNamespace),
  ]);
  const main = html`<p class="lead">What stands between Assistants and the nodes, and the programs of this Space, as far as you may read it.</p>${sections}
${kubectl(
  'kubectl get runtimeclasses,nodes -o wide',
  `kubectl -n ${systemNamespace} get pods -l platform.space/component=sandbox-probe -o wide`,
  `kubectl -n ${servicesNamespace} get deployments -o wide`,
)}`;
  return { title: 'Sandbox and brokers', main };
}

function runtimeClassSection(visit: Visit): Promise<Html> {
  const what = { group: 'node.k8s.io', resource: 'runtimeclasses' };
  return section(visit, 'Runtime classes', what, '/apis/node.k8s.io/v1/runtimeclasses', (json) =>
    table(
      ['Class', 'Handler'],
      classes.parse(json).items.map((one) => [one.metadata.name, foreign(one.handler, 63)]),
    ),
  );
}

function nodeSection(visit: Visit): Promise<Html> {
  return section(visit, 'Nodes', { resource: 'nodes' }, '/api/v1/nodes', (json) =>
    table(
      ['Node', 'Runtime', 'Handlers'],
      nodes.parse(json).items.map(({ metadata, status }) => [
        metadata.name,
        foreign(status.nodeInfo?.containerRuntimeVersion, 100),
        foreign(
          (status.runtimeHandlers ?? [])
            .map(({ name }) => name)
            .filter(Boolean)
            .join(', '),
          300,
        ),
      ]),
    ),
  );
}

function probeSection(visit: Visit): Promise<Html> {
  const namespace = visit.names.systemNamespace;
  const show = (json: unknown) =>
    table(
      ['Probe', 'Node', 'State'],
      pods
        .parse(json)
        .items.map(({ metadata, spec, status }) => [
          metadata.name,
          spec.nodeName ?? '–',
          state(
            status.phase === 'Succeeded' ? 'good' : status.phase === 'Failed' ? 'bad' : 'warn',
            status.phase ?? 'Unknown',
          ),
        ]),
    );
  return section(
    visit,
    'Probes of the sandbox',
    { resource: 'pods', namespace },
    apiPath`/api/v1/namespaces/${namespace}/pods`,
    show,
    { labelSelector: 'platform.space/component=sandbox-probe' },
  );
}

function programSection(visit: Visit, namespace: string): Promise<Html> {
  const show = (json: unknown) =>
    table(
      ['Program', 'Ready', 'Image'],
      deployments
        .parse(json)
        .items.map(({ metadata, spec, status }) => [
          metadata.name,
          state(
            status.readyReplicas >= spec.replicas ? 'good' : 'bad',
            `${status.readyReplicas} of ${spec.replicas}`,
          ),
          html`<code>${foreign(spec.template.spec.containers.map(({ image }) => image).join(', '), 300)}</code>`,
        ]),
    );
  return section(
    visit,
    `Programs in ${namespace}`,
    { group: 'apps', resource: 'deployments', namespace },
    apiPath`/apis/apps/v1/namespaces/${namespace}/deployments`,
    show,
  );
}

async function section(
  visit: Visit,
  title: string,
  what: Omit<Act, 'verb'>,
  path: string,
  show: (json: unknown) => Html,
  query: Readonly<Record<string, string>> = {},
): Promise<Html> {
  const body: Value = (await visit.may({ ...what, verb: 'list' }))
    ? show(await visit.ask({ path, query: { limit: '500', ...query } }))
    : html`<p class="quiet">You may not see these: it takes <code>list</code> on ${what.resource}${what.namespace === undefined ? '' : ` in ${what.namespace}`}.</p>`;
  return html`<h2>${title}</h2>${body}`;
}
