import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Step } from '../../progress/index.ts';
import { readJson } from '../files.ts';
import { run } from '../run.ts';
import { callApi } from './api.ts';
import type { Layout } from './layout.ts';
import { baseObjects } from './objects.ts';
import { insideNode, runningNode } from './process.ts';
import type { ComponentStatus } from './supervisor.ts';

interface Node {
  readonly name: string;
  readonly layout: Layout;
  readonly apiPort: number;
  readonly corednsImage: string;
}

/** Applies what a cluster has from its first minute on, and waits until pods, names and policies work. */
export async function becomeReady(node: Node, step: Step): Promise<void> {
  const { name, layout, apiPort, corednsImage } = node;
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
  const objects = await baseObjects(name, layout, corednsImage);
  // A new kind of object is known a moment after its definition.
  await wait('apply', () => succeeds(apply('-', objects)));
  await wait('kubelet', () => isTrue(callApi(api, `/api/v1/nodes/${name}`), 'Ready'));
  const coredns = '/apis/apps/v1/namespaces/kube-system/deployments/coredns';
  await wait('kubelet', () => isTrue(callApi(api, coredns), 'Available'));
  await wait('calico-felix', () => felixReady(layout));
}

/** NetworkPolicies are enforced from here on. Felix listens inside the node only. */
const felixReady = (layout: Layout): Promise<boolean> =>
  succeeds(run(insideNode(layout, [process.execPath, '-e', ASK_FELIX])));
const ASK_FELIX = "fetch('http://127.0.0.1:9099/readiness').then((r) => process.exit(r.ok ? 0 : 1))";

const succeeds = (work: Promise<unknown>): Promise<boolean> =>
  work.then(
    () => true,
    () => false,
  );

interface WithConditions {
  readonly status?: { readonly conditions?: readonly { readonly type: string; readonly status: string }[] };
}

async function isTrue(object: Promise<unknown>, type: string): Promise<boolean> {
  const found = (await object.catch(() => ({}))) as WithConditions;
  return found.status?.conditions?.some((one) => one.type === type && one.status === 'True') ?? false;
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
      throw new Error('the node ended');
    }
    if (Date.now() > deadline) throw new Error(`waited 3 minutes for ${component}${await unsteady(layout)}`);
    await delay(100);
  }
  step.note('');
}

/** Whoever is started again and again is probably the cause. */
async function unsteady({ componentStatus }: Layout): Promise<string> {
  const statuses = (await readJson<Record<string, ComponentStatus>>(componentStatus)) ?? {};
  return Object.entries(statuses)
    .filter(([, { restarts }]) => restarts > 2)
    .map(([name, { restarts, ended }]) => `; ${name} was restarted ${restarts} times (${ended})`)
    .join('');
}
