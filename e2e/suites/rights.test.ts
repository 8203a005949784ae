/**
 * Compares the requests that the Space's programs sent to the API server while all other suites ran with what their
 * roles allow: no program asked for something that it may not do, and none has a right that it never used. This is
 * the last of the suites (vitest.config.ts).
 */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { openCluster } from '../cluster/index.ts';
import { finish } from '../space/kube.ts';
import { type LoggedRequest, type Role, requestsIn, rightsOf, UNUSED } from './support/rights.ts';
import {
  assistant,
  capsule,
  deleteCapsules,
  installed,
  kube,
  namespaceOf,
  ready,
  unique,
} from './support/space.ts';
import { until } from './support/until.ts';

const home = unique('rights');
const NATIVE = 'only a cluster of our own lets tests read the API server’s log';

/** Fields that somebody else adds to objects which belong to the operator completely. */
const ADDED: readonly (readonly [string, string, object])[] = [
  ['networkpolicy', 'space-default-deny', { spec: { podSelector: { matchLabels: { nobody: 'x' } } } }],
  ['resourcequota', 'space-quota', { spec: { hard: { pods: '7777' } } }],
  ['limitrange', 'space-limits', { spec: { limits: [{ type: 'Pod', max: { cpu: '77' } }] } }],
  [
    'rolebinding',
    'space-operator',
    { subjects: [{ kind: 'User', name: 'x', apiGroup: 'rbac.authorization.k8s.io' }] },
  ],
  ['service', 'inside', { spec: { ports: [{ name: 'more', port: 77 }] } }],
  [
    'deployment',
    'inside',
    {
      spec: {
        template: { spec: { containers: [{ name: 'assistant', env: [{ name: 'MORE', value: 'x' }] }] } },
      },
    },
  ],
];

let asked: readonly LoggedRequest[] | undefined;

/** The requests of the programs of every Space of this cluster; undefined if the API server's log cannot be read. */
async function whatTheyAsked(): Promise<readonly LoggedRequest[] | undefined> {
  const node = (await openCluster(installed.cluster))?.node;
  if (node === undefined) return undefined;
  const ours = '"username":"system:serviceaccount:[a-z0-9-]*-system:';
  const [program, ...args] = node.command(['grep', '-rh', ours, node.auditLogs, '--include=audit.log*']);
  return requestsIn((await finish(program, args)).stdout);
}

const uidOf = async (kind: string, name: string, namespace: string) =>
  (await kube.get(kind, name, namespace))?.metadata.uid;

/** Removes and changes each object that the operator creates, with every right; the operator restores all of them. */
async function disturb(namespace: string): Promise<void> {
  const open = ['annotate', 'namespace', namespace, '--overwrite'];
  expect((await kube.run([...open, 'platform.space/open=true'])).code).toBe(0);
  for (const [kind, name, more] of ADDED) {
    const before = await kube.get(kind, name, namespace);
    const patch = ['patch', kind, name, '-n', namespace, '--type=strategic', '-p', JSON.stringify(more)];
    const { code, stderr } = await kube.run(patch);
    expect([kind, code, stderr]).toEqual([kind, 0, '']);
    const spec = JSON.stringify([before?.['spec'], before?.['subjects']]);
    await until(`${kind} ${name} to be as it was`, async () => {
      const now = await kube.get(kind, name, namespace);
      return JSON.stringify([now?.['spec'], now?.['subjects']]) === spec;
    });
  }
  const label = 'pod-security.kubernetes.io/warn';
  const labels = async () => (await kube.get('namespace', namespace))?.metadata.labels;
  const before = await labels();
  expect((await kube.run(['label', 'namespace', namespace, `${label}-`])).code).toBe(0);
  await until(
    'the namespace’s labels to be as they were',
    async () => (await labels())?.[label] === before?.[label],
  );
  for (const [kind, name] of ADDED) {
    const uid = await uidOf(kind, name, namespace);
    await kube.remove(kind, name, namespace);
    await until(`${kind} ${name} to be back`, async () => {
      const now = await uidOf(kind, name, namespace);
      return now !== undefined && now !== uid;
    });
  }
  expect((await kube.run([...open, 'platform.space/open-'])).code).toBe(0);
}

beforeAll(async () => {
  await kube.apply(capsule(home), assistant(home, 'inside', {}, `${home}-inside`));
  await ready('assistant', `${home}-inside`);
  await disturb(await namespaceOf(home));
  asked = await whatTheyAsked();
});

afterAll(() => deleteCapsules(home));

/** Each right that a program of this Space has, according to the roles in the API server. */
async function heldRights(): Promise<readonly string[]> {
  const label = `platform.space/space=${installed.space}`;
  const { stdout } = await kube.run(['get', 'roles,clusterroles', '-A', '-l', label, '-o', 'json']);
  const { items } = JSON.parse(stdout) as { items: readonly Role[] };
  return rightsOf(items, installed.space);
}

it('no program of the Space asks for what its roles do not allow', async (context) => {
  if (asked === undefined) return context.skip(NATIVE);
  expect(asked.length).toBeGreaterThan(1_000);
  const held = (await heldRights()).map((right) =>
    right.replace(/^capsule-secrets:/, 'operator:').replace(/^console-principals:/, 'console:'),
  );
  // While a Space is being installed or removed, the API server may not know its roles yet, or no longer.
  const refused = asked
    .filter(({ decision }) => decision !== 'allow')
    .map(({ account, right }) => `${account}${right}`)
    .filter((right) => !held.includes(right));
  expect([...new Set(refused)]).toEqual([]);
});

it('no program of the Space has a right that it never uses', async (context) => {
  if (asked === undefined) return context.skip(NATIVE);
  const used = new Set(asked.map(({ right }) => right));
  const held = await heldRights();
  expect(held.length).toBeGreaterThan(40);
  const excused = Object.keys(UNUSED);
  expect(held.filter((right) => !used.has(right) && !excused.includes(right))).toEqual([]);
  expect(excused.filter((right) => !held.includes(right))).toEqual([]);
});
