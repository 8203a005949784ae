/** Changes of a Capsule's network policies under the chart's admission policies, on a real API server, and their undoing. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { findTool } from '../../../e2e/cluster/tools.ts';
import { createKube, type Kube } from '../../../e2e/space/kube.ts';
import { named, type PolicyServer, startPolicyServer } from '../../../e2e/space/testing/policy-server.ts';
import { eventually } from '../../eventually.ts';
import { changed } from './change.ts';
import { asWritten, type Mutant, mutantsOf, type Policy } from './mutants.ts';
import { must, OPEN, type Undo, undoLeftovers, withUndo } from './undo.ts';

const CAPSULE = 'home-household-0123abcd';
const WALL = 'space-default-deny';
const OPERATOR = 'home-operator';

let directory: string;
let policyServer: PolicyServer;
let kube: Kube;
let original: Policy;
const patience = { seconds: 60, signal: new AbortController().signal };

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'space-undo-'));
  policyServer = await startPolicyServer();
  const kubeconfig = join(directory, 'kubeconfig');
  await writeFile(kubeconfig, policyServer.server.kubeconfig);
  kube = createKube(await findTool('kubectl', directory), kubeconfig);
  const labels = { 'platform.space/space': 'home', 'platform.space/capsule': 'household' };
  await policyServer.create('/api/v1/namespaces', named(CAPSULE, labels));
  await must(kube, ['annotate', 'namespace', CAPSULE, `${OPEN}=true`]);
  const spec = { podSelector: {}, policyTypes: ['Ingress', 'Egress'] };
  const wall = { apiVersion: 'networking.k8s.io/v1', kind: 'NetworkPolicy', ...named(WALL), spec };
  const create = () => kube.run(['create', '-n', CAPSULE, '-f', '-'], JSON.stringify(wall));
  await eventually(async () => (await create()).code === 0, { what: 'the open namespace' });
  await must(kube, ['annotate', 'namespace', CAPSULE, `${OPEN}-`]);
  await eventually(isClosed, { what: 'the walls to be the operator’s' });
  await policyServer.create('/apis/apps/v1/namespaces/home-system/deployments', {
    ...named(OPERATOR),
    spec: {
      replicas: 2,
      selector: { matchLabels: { a: 'b' } },
      template: { metadata: { labels: { a: 'b' } }, spec: { containers: [{ name: 'x', image: 'x' }] } },
    },
  });
  original = (await kube.get('networkpolicy', WALL, CAPSULE)) as unknown as Policy;
}, 900_000);

afterAll(async () => {
  await policyServer?.stop();
  await rm(directory, { recursive: true, force: true });
});

const specOf = async () => (await kube.get('networkpolicy', WALL, CAPSULE))?.['spec'];
const isClosed = async () => {
  const args = ['delete', 'networkpolicy', WALL, '-n', CAPSULE, '--dry-run=server'];
  return (await kube.run(args)).stderr.includes(`${OPEN}=true`);
};
const replicas = async () => (await kube.get('deployment', OPERATOR, 'home-system'))?.['spec'].replicas;
const undoing = () => ({ kube, namespace: 'home' });
const mutant = (change: Mutant['change']) => {
  const found = mutantsOf({
    ...original,
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
  } as Policy);
  return found.find((one) => one.change === change) as Mutant;
};

describe('a wall of a Capsule', () => {
  it.each([
    ['removed', undefined],
    ['allows all ingress', { ingress: [{}] }],
    ['allows all egress', { egress: [{}] }],
  ] as const)(
    'has the change “%s” for as long as it is measured, and is the operator’s again afterwards',
    async (change, how) => {
      const during = await changed(undoing(), mutant(change), patience, specOf);
      if (how === undefined) expect(during).toBeUndefined();
      else expect(during).toMatchObject(how);
      expect(await specOf()).toEqual(original.spec);
      await eventually(isClosed, { what: 'the namespace to be closed' });
      expect(await undoLeftovers(undoing())).toEqual([]);
    },
  );

  it('is restored also when the measurement fails', async () => {
    const looking = changed(undoing(), mutant('removed'), patience, () => Promise.reject(new Error('dark')));
    await expect(looking).rejects.toThrow('dark');
    expect(await specOf()).toEqual(original.spec);
    await eventually(isClosed, { what: 'the namespace to be closed' });
  });
});

describe('what a run that was killed has left', () => {
  /** A killed run undoes nothing, so only its record remains. */
  const killed = async (undo: Undo, act: () => Promise<void>) => {
    let alive = true;
    const dying: Kube = {
      ...kube,
      run: (args, input) => (alive ? kube.run(args, input) : new Promise(() => {})),
      get: (...args) => (alive ? kube.get(...args) : new Promise(() => {})),
    };
    await new Promise<void>((gone) => {
      void withUndo({ kube: dying, namespace: 'home' }, undo, async () => {
        await act();
        alive = false;
        gone();
      });
    });
  };

  it('is put right at the next start: the policy, the open namespace, the operator at no replicas', async () => {
    const replicasBefore = await replicas();
    await killed({ kind: 'replicas', name: OPERATOR, namespace: 'home-system', replicas: 2 }, () =>
      must(kube, ['scale', 'deployment', OPERATOR, '-n', 'home-system', '--replicas=0']),
    );
    await killed({ kind: 'open', namespace: CAPSULE }, () =>
      must(kube, ['annotate', 'namespace', CAPSULE, `${OPEN}=true`]),
    );
    await eventually(async () => !(await isClosed()), { what: 'the namespace to be open' });
    await killed({ kind: 'policy', policy: writtenWall() }, () =>
      must(kube, ['delete', 'networkpolicy', WALL, '-n', CAPSULE]),
    );
    expect([replicasBefore, await replicas(), await specOf()]).toEqual([2, 0, undefined]);

    expect(await undoLeftovers(undoing())).toEqual(['policy', 'open', 'replicas']);
    expect([await replicas(), await specOf()]).toEqual([2, original.spec]);
    await eventually(isClosed, { what: 'the namespace to be closed' });
    expect(await undoLeftovers(undoing())).toEqual([]);
  });

  it('is no matter when the Capsule has gone since', async () => {
    const policy = { ...writtenWall(), metadata: { name: WALL, namespace: 'home-gone-0123abcd' } };
    await killed({ kind: 'policy', policy }, async () => {});
    await killed({ kind: 'open', namespace: 'home-gone-0123abcd' }, async () => {});
    expect(await undoLeftovers(undoing())).toEqual(['policy', 'open']);
  });
});

const writtenWall = () => asWritten(mutant('removed').policy as Policy & Record<string, unknown>);
