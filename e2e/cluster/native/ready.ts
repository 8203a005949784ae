import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Step } from '../../progress/index.ts';
import { readJson } from '../files.ts';
import { run } from '../run.ts';
import { type Api, callApi } from './api.ts';
import { type Layout, NETWORK } from './layout.ts';
import { baseObjects } from './objects.ts';
import { insideNode, nodeStarted, runningNode } from './process.ts';
import type { ComponentStatus } from './supervisor.ts';

interface Nodes {
  /** The first node has the control plane. */
  readonly layouts: readonly [Layout, ...Layout[]];
  readonly apiPort: number;
  readonly corednsImage: string;
}

/** Applies the objects that every cluster has, and waits until pods, DNS and policies work. */
export async function becomeReady({ layouts, apiPort, corednsImage }: Nodes, step: Step): Promise<void> {
  const [layout] = layouts;
  const api = { port: apiPort, pki: layout.pki };
  const wait = (component: string, condition: () => Promise<boolean>) =>
    waitFor(layout, step, component, condition);

  await wait('kube-apiserver', () => succeeds(callApi(api, '/readyz')));
  const applied = join(layout.log, 'apply.log');
  const apply = (file: string, input?: string) =>
    run(
      [
        join(layout.bin, 'kubectl'),
        `--kubeconfig=${layout.kubeconfig}`,
        ...['apply', '--server-side', '--force-conflicts', '--filename', file],
      ],
      { log: applied, ...(input !== undefined && { input }) },
    );
  if (!(await succeeds(callApi(api, '/apis/crd.projectcalico.org/v1/felixconfigurations'))))
    await apply(join(layout.bin, 'crds'));
  const objects = await baseObjects(layouts, corednsImage);
  // A new kind of object is known a moment after its definition.
  await wait('apply', () => succeeds(apply('-', objects)));
  for (const node of layouts) await nodeReady(api, node, step);
}

async function nodeReady(api: Api, node: Layout, step: Step): Promise<void> {
  const wait = (component: string, condition: () => Promise<boolean>) =>
    waitFor(node, step, component, condition);
  await wait('kubelet', () => isReady(callApi(api, `/api/v1/nodes/${node.node}`), nodeStarted(node)));
  // The API server may remember an earlier start, so this asks from inside the node what works now.
  const ask = (script: string) => succeeds(run(insideNode(node, [process.execPath, '-e', script])));
  await wait('calico-felix', () => ask(FELIX_READY));
  await wait('kubelet', () => ask(NAMES_RESOLVE));
}

/** When this succeeds, NetworkPolicies are enforced. */
const FELIX_READY = `fetch('http://127.0.0.1:9099/readiness').then((answer) => process.exit(answer.ok ? 0 : 1))`;

/** A pod runs (CoreDNS), and its Service reaches it. */
const NAMES_RESOLVE = `
  const { Resolver } = require('node:dns').promises;
  const resolver = new Resolver({ timeout: 1000, tries: 1 });
  resolver.setServers(['${NETWORK.dns}']);
  resolver.resolve4('kubernetes.default.svc.cluster.local').then(() => process.exit(0), () => process.exit(1));`;

const succeeds = (work: Promise<unknown>): Promise<boolean> =>
  work.then(
    () => true,
    () => false,
  );

interface NodeObject {
  readonly status?: { readonly conditions?: readonly NodeCondition[] };
}

interface NodeCondition {
  readonly type: string;
  readonly status: string;
  readonly lastHeartbeatTime: string;
}

/** Ready, and said so since the node was started (heartbeats are told in whole seconds). */
async function isReady(object: Promise<unknown>, started: Date | undefined): Promise<boolean> {
  const { status } = (await object.catch(() => ({}))) as NodeObject;
  const ready = status?.conditions?.find(({ type }) => type === 'Ready');
  return ready?.status === 'True' && Date.parse(ready.lastHeartbeatTime) + 1000 > (started?.getTime() ?? 0);
}

const READY_WITHIN_MS = 180_000;

/** Waits for a condition; says what it waits for, and shows that component's log when it never comes. */
export async function waitFor(
  layout: Layout,
  step: Step,
  component: string,
  condition: () => Promise<boolean>,
): Promise<void> {
  const deadline = Date.now() + READY_WITHIN_MS;
  step.note(`waiting for ${component}`);
  step.explain(join(layout.log, `${component}.log`));
  while (!(await condition())) {
    if (runningNode(layout) === undefined) {
      step.explain(join(layout.log, 'node.log'));
      throw new Error(`the node ${layout.node} ended`);
    }
    if (Date.now() > deadline) throw new Error(`waited 3 minutes for ${component}${await unsteady(layout)}`);
    await delay(100);
  }
  step.note('');
}

/** Names components that restart repeatedly, which are probably the cause. */
async function unsteady({ componentStatus }: Layout): Promise<string> {
  const statuses = (await readJson<Record<string, ComponentStatus>>(componentStatus)) ?? {};
  return Object.entries(statuses)
    .filter(([, { restarts }]) => restarts > 2)
    .map(([name, { restarts, ended }]) => `; ${name} was restarted ${restarts} times (${ended})`)
    .join('');
}
