import { afterAll, beforeAll, expect, it } from 'vitest';
import { openCluster } from '../cluster/index.ts';
import { MARK } from '../verify/bystanders.ts';
import { failures, type Report } from '../verify/report.ts';
import { verify } from '../verify/verify.ts';
import { installed, kube, ONE_POD, services, unique } from './support/space.ts';

const run = unique('v');
const HOLE = unique('hole');
const { part, port } = ONE_POD;
/** Who has no wall of their own, so that a hole in another's is all it takes. */
const FREE = ['client', 'neighbour', 'stranger'];
const KINDS = 'capsules.platform.space,assistants.platform.space,pods,namespaces';

let report: Report;

beforeAll(async () => {
  // Somebody lets the whole cluster to one part.
  await kube.apply({
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    metadata: { name: HOLE, namespace: services },
    spec: {
      podSelector: { matchLabels: { 'platform.space/component': part } },
      policyTypes: ['Ingress'],
      ingress: [{ from: [{ namespaceSelector: {} }], ports: [{ protocol: 'TCP', port }] }],
    },
  });
  const node = (await openCluster(installed.cluster))?.node;
  const outside = await node?.outside({ ports: [443] });
  try {
    report = await verify(
      {
        space: installed.space,
        namespace: installed.namespace,
        run,
        outside: (outside?.addresses ?? []).map((address) => ({ address, port: 443 })),
      },
      {
        kube,
        clock: Date.now,
        patience: { seconds: 600, signal: new AbortController().signal },
        say: () => {},
      },
    );
  } finally {
    await outside?.[Symbol.asyncDispose]();
  }
});

afterAll(() => kube.remove('networkpolicy', HOLE, services));

it('names the way that a policy too many has opened, and finds all else as it is drawn', () => {
  const opened = [`${part} tcp ${port}`, `Service ${part} tcp ${port}`].flatMap((target) =>
    FREE.map((from) => `${from} -> ${target}: expected closed, observed connected`),
  );
  expect(failures(report).toSorted()).toEqual(opened.toSorted());
});

it('has asked every pod about everything', () => {
  expect(report.notes).toEqual([]);
  expect(report.unanswered).toEqual([]);
  expect(report.cells.filter(({ seen }) => seen === 'unasked')).toEqual([]);
  // The canary's own program has no ping, so a pod with its labels replaces it.
  const over = (from: string) =>
    new Set(
      report.cells.filter((cell) => cell.from === from).map(({ target }) => /tcp|udp|icmp/.exec(target)?.[0]),
    );
  expect([over('canary').size, over('canary, stand-in').size]).toEqual([2, 3]);
  const asked = new Set(report.cells.map(({ to }) => to));
  for (const to of ['dns', 'other ports of dns', 'stranger', 'canary']) expect(asked).toContain(to);
});

it('has tested what credentials give access to, and names the network plugin', () => {
  const names = [
    'sandbox',
    'attestation',
    'admission',
    'cross-database',
    'cross-prefix',
    'egress',
    'custody',
  ];
  expect(report.checks.map(({ name }) => name)).toEqual(names);
  expect(report.versions['network plugin']).toMatch(/Calico v\d/);
});

it('leaves nothing behind', async () => {
  const { stdout } = await kube.run(['get', KINDS, '--all-namespaces', '-l', MARK, '-o', 'name']);
  expect(stdout).toBe('');
});
