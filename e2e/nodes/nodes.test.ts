import { beforeAll, describe, expect, it } from 'vitest';
import { type Cluster, openCluster } from '../cluster/index.ts';
import type { KubeObject } from '../space/kube-object.ts';
import {
  assistant,
  capsule,
  conditionOf,
  installed,
  kube,
  namespaceOf,
  podsOf,
  ready,
  runningPod,
  services,
  system,
  unique,
  untilCondition,
} from '../suites/support/space.ts';
import { until } from '../suites/support/until.ts';
import { failures } from '../verify/report.ts';
import { verify } from '../verify/verify.ts';

type FurtherNode = NonNullable<Cluster['furtherNodes']>[number];

let household: string;
let lost: FurtherNode;
let lacking: FurtherNode;

async function kubectl(...args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await kube.run(args);
  if (code !== 0) throw new Error(`kubectl ${args.join(' ')}: ${stderr}`);
  return stdout;
}

const nodeOf = async (id: string, namespace = household): Promise<string> =>
  (await runningPod(namespace, id)).spec.nodeName;

async function nodes(): Promise<readonly string[]> {
  return (await kubectl('get', 'nodes', '-o', 'name'))
    .trim()
    .split('\n')
    .map((name) => name.slice('node/'.length));
}

/** Runs in the ledger: sends one request to itself, so that it does not matter which node the test runs on. */
const REQUEST = `
  const [method, path, body] = process.argv.slice(1);
  const headers = { 'content-type': 'application/json' };
  fetch('http://127.0.0.1:' + process.env.PORT + path, { method, ...(body ? { body, headers } : {}) })
    .then(async (answer) => console.log(JSON.stringify([answer.status, await answer.json()])));`;

async function ask(method: string, path: string, body?: object): Promise<[number, unknown]> {
  const pod = await runningPod(household, 'ledger');
  const more = body === undefined ? [] : [JSON.stringify(body)];
  const argv = ['node', '-e', REQUEST, method, path, ...more];
  const { stdout, stderr } = await kube.exec(household, pod.metadata.name, argv);
  if (stdout === '') throw new Error(stderr);
  return JSON.parse(stdout);
}

/** The ledger's data in PostgreSQL and in the bucket. */
const held = async () => [await ask('GET', '/balances'), await ask('GET', '/statements/2026-11')];

/** Makes a new pod of the ledger start on that node. */
async function place(node: string): Promise<void> {
  const others = (await nodes()).filter((name) => name !== node);
  for (const other of others) await kubectl('cordon', other);
  for (const pod of await podsOf(household, 'ledger'))
    await kubectl('delete', 'pod', '-n', household, pod.metadata.name);
  await until(`the ledger on ${node}`, async () => (await nodeOf('ledger')) === node);
  await ready('assistant', 'ledger');
  for (const other of others) await kubectl('uncordon', other);
}

beforeAll(async () => {
  const [second, third] = (await openCluster(installed.cluster))?.furtherNodes ?? [];
  if (second === undefined || third === undefined) throw new Error('there are no three nodes');
  [lost, lacking] = [second, third];
  await ready('assistant', 'ledger');
  household = await namespaceOf('household');
  const lines = [
    { account: 'expenses:groceries', currency: 'EUR', amount: '42.50' },
    { account: 'assets:bank', currency: 'EUR', amount: '-42.50' },
  ];
  const entry = { description: 'Groceries', idempotency_key: 'first', lines };
  expect((await ask('POST', '/entries', entry))[0]).toBeLessThan(300);
  expect((await ask('POST', '/statements/2026-11'))[0]).toBe(200);
});

describe('a Space on three nodes', () => {
  it('has the two replicas of each part on different nodes', async () => {
    const parts = new Map<string, string[]>();
    for (const pod of [...(await kube.list('pods', services)), ...(await kube.list('pods', system))]) {
      const { 'platform.space/component': component } = pod.metadata.labels ?? {};
      if (component === undefined || pod.status.phase !== 'Running') continue;
      parts.set(component, [...(parts.get(component) ?? []), pod.spec.nodeName]);
    }
    for (const component of ['operator', 'console', 'db-broker', 'objectstore-broker', 'egress'])
      expect([component, new Set(parts.get(component)).size]).toEqual([component, 2]);
  });

  it('enforces every network policy, whichever nodes the two sides are on', async () => {
    const { space, namespace } = installed;
    const report = await verify(
      { space, namespace, run: unique('v'), outside: [] },
      {
        kube,
        clock: Date.now,
        patience: { seconds: 600, signal: new AbortController().signal },
        say: () => {},
      },
    );
    expect(failures(report)).toEqual([]);
    expect(report.unanswered).toEqual([]);
    console.log(`verify on three nodes: ${report.cells.length} cells`);
  });
});

describe('a node that is cordoned', () => {
  it('keeps the Assistants that it has, and gets no new ones', async () => {
    const home = unique('cordon');
    await place(lacking.name);
    const before = (await runningPod(household, 'ledger')).metadata.name;
    await kubectl('cordon', lacking.name);
    await kube.apply(capsule(home), assistant(home, 'one', {}, `${home}-one`));
    await ready('assistant', `${home}-one`);
    expect(await nodeOf('one', await namespaceOf(home))).not.toBe(lacking.name);
    expect((await runningPod(household, 'ledger')).metadata.name).toBe(before);
    await ready('assistant', 'ledger');
    await kube.remove('capsule', home, installed.namespace);
    await kubectl('uncordon', lacking.name);
  });
});

describe('a node that is drained', () => {
  it('has its Assistant started on another, with its rows and files', async () => {
    const before = await held();
    expect(await nodeOf('ledger')).toBe(lacking.name);
    await kubectl(
      'drain',
      lacking.name,
      '--ignore-daemonsets',
      '--delete-emptydir-data',
      '--force',
      '--timeout=600s',
    );
    await until('the ledger elsewhere', async () => (await nodeOf('ledger')) !== lacking.name);
    await ready('assistant', 'ledger');
    expect(await held()).toEqual(before);
    await kubectl('uncordon', lacking.name);
  });
});

describe('a zone that is given up by a taint', () => {
  it('has its Assistants evicted, and started in another with their rows and files; new ones avoid it', async () => {
    const zone = 'topology.kubernetes.io/zone=given-up';
    const taint = 'zone=given-up:NoExecute';
    await kubectl('label', 'node', lacking.name, zone);
    await place(lacking.name);
    const before = await held();
    await kubectl('taint', 'node', '-l', zone, taint);
    await until('the ledger in another zone', async () => (await nodeOf('ledger')) !== lacking.name);
    await ready('assistant', 'ledger');
    expect(await held()).toEqual(before);
    const home = unique('zone');
    await kube.apply(capsule(home), assistant(home, 'one', {}, `${home}-one`));
    await ready('assistant', `${home}-one`);
    expect(await nodeOf('one', await namespaceOf(home))).not.toBe(lacking.name);
    await kube.remove('capsule', home, installed.namespace);
    await kubectl('taint', 'node', '-l', zone, `${taint}-`);
    await kubectl('label', 'node', lacking.name, 'topology.kubernetes.io/zone-');
  });
});

describe('a node without gVisor', () => {
  const gate = async () =>
    conditionOf(await kube.get('capsule', 'household', installed.namespace), 'SandboxReady');

  it('is named by the gate, which stays open for the others', async () => {
    await lacking.removeHandler();
    await until('the gate to name the node', async () => {
      const found = await gate();
      if (found?.status === 'True' && found.message.includes(`"${lacking.name}"`)) return found;
      throw new Error(found?.message);
    });
  });

  it('gets no Assistant when the class selects the nodes that have it', async () => {
    const able = (await nodes()).filter((name) => name !== lacking.name);
    for (const node of able) await kubectl('label', 'node', node, 'sandbox=gvisor', '--overwrite');
    const patch = JSON.stringify({ scheduling: { nodeSelector: { sandbox: 'gvisor' } } });
    await kubectl('patch', 'runtimeclass', 'gvisor', '--type=merge', '-p', patch);
    await until('the gate to have nothing to name', async () => {
      const found = await gate();
      return found?.status === 'True' && !found.message.includes(`"${lacking.name}"`);
    });
    const home = unique('lacking');
    const ids = ['one', 'two', 'three'];
    await kube.apply(capsule(home), ...ids.map((id) => assistant(home, id, {}, `${home}-${id}`)));
    await Promise.all(ids.map((id) => ready('assistant', `${home}-${id}`)));
    const inHome = await namespaceOf(home);
    for (const id of ids) expect(able).toContain(await nodeOf(id, inHome));
    const pods: KubeObject[] = await kube.list('pods', inHome);
    expect(pods.filter(({ spec }) => spec.nodeName === lacking.name)).toEqual([]);
    await kube.remove('capsule', home, installed.namespace);
  });
});

describe('a node that is lost', () => {
  it('has its Assistant start elsewhere with its rows and files, within the time of eviction', async () => {
    await place(lost.name);
    const before = await held();
    const dead = (await runningPod(household, 'ledger')).metadata.name;
    const began = performance.now();
    const passed = () => ((performance.now() - began) / 1000).toFixed(0);
    await lost.end();
    const said = await untilCondition('assistant', 'ledger', 'WorkloadReady', 'False', 'NodeNotReady');
    expect(said.message).toContain(`"${lost.name}"`);
    await until('the ledger on another node', async () => {
      const pods = await podsOf(household, 'ledger');
      return pods.find(
        ({ metadata, status, spec }) =>
          metadata.name !== dead && status.phase === 'Running' && spec.nodeName !== lost.name,
      );
    });
    const started = passed();
    await ready('assistant', 'ledger');
    expect(await held()).toEqual(before);
    console.log(`lost node: another pod runs after ${started} s, its data is read after ${passed()} s`);
  });
});
