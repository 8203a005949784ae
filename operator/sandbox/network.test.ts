import { describe, expect, test } from 'vitest';
import type { Node, Pod, Service } from '../kinds.ts';
import { makeStores } from '../stores.ts';
import { names } from '../testing/names.ts';
import { decideNetwork, dnsServersOf, networkQuestion, type Walls } from './network.ts';
import { type Proof, probeName, probeObject, proofOf, type Question } from './probe.ts';
import { planProbe } from './prober.ts';

const node: Node = {
  metadata: { name: 'n1', uid: 'u1' },
  status: {
    conditions: [
      { type: 'Ready', status: 'True' },
      { type: 'NetworkUnavailable', status: 'False', lastTransitionTime: '2026-01-01T00:00:00Z' },
    ],
    runtimeHandlers: [{ name: 'runsc' }],
    nodeInfo: { bootID: 'b1' },
  },
};
const service = (component: string, clusterIPs: string[], namespace = 'home-services'): Service => ({
  metadata: {
    name: component,
    namespace,
    labels: { 'platform.space/space': 'home', 'platform.space/component': component },
  },
  spec: { clusterIP: clusterIPs[0] as string, clusterIPs },
});
function ask(...services: readonly Service[]): Question | undefined {
  const stores = makeStores();
  for (const one of services) stores.services.set(one);
  return networkQuestion(names, stores);
}
const [canary, postgres] = [service('canary', ['10.0.0.7', 'fd00::7']), service('postgres', ['10.0.0.5'])];
const question = ask(canary, postgres) as Question;

describe('the question to a node', () => {
  test('is to reach PostgreSQL and the canary, and nothing else, nor the denied ports of the canary', () => {
    expect(question.container.command).toEqual([
      '/attest',
      'prove',
      '+PostgreSQL=10.0.0.5:5432',
      '+the canary=10.0.0.7,fd00::7:7001',
      '-the canary, where no policy lets it go=10.0.0.7,fd00::7:7002',
      '-the canary, where no policy lets it in=10.0.0.7,fd00::7:7003',
      '+the canary=10.0.0.7,fd00::7:7011/udp',
      '-the canary, where no policy lets it go=10.0.0.7,fd00::7:7012/udp',
      '-the canary, where no policy lets it in=10.0.0.7,fd00::7:7013/udp',
      '-the API server=$(KUBERNETES_SERVICE_HOST):$(KUBERNETES_SERVICE_PORT)',
      '-its node=$(NODE):10250',
      '-the metadata address=169.254.169.254,fd00:ec2::254:80',
    ]);
  });

  test('is to reach the PostgreSQL of the Assistants, also if the Space does not run it', () => {
    const stores = makeStores();
    stores.services.set(canary);
    const databaseServer = { host: 'pg', addresses: ['10.96.3.4', 'fd00::9'], port: 5433, egress: [] };
    const asked = networkQuestion({ ...names, databaseServer }, stores);
    expect(asked?.container.command).toContain('+PostgreSQL=10.96.3.4,fd00::9:5433');
  });

  test('is to reach only the first PostgreSQL, so that an unavailable further one blocks nothing', () => {
    const stores = makeStores();
    for (const one of [canary, postgres]) stores.services.set(one);
    const further = { host: 'pg-b', addresses: ['10.96.3.5'], port: 5433, egress: [] };
    const asked = networkQuestion({ ...names, furtherDatabaseServers: [further] }, stores);
    expect(asked?.container).toEqual(question.container);
  });

  test('is not to reach a DNS server of the cluster, over either protocol', () => {
    const stores = makeStores();
    for (const one of [canary, postgres]) stores.services.set(one);
    const asked = networkQuestion({ ...names, dnsServers: ['10.96.0.10', 'fd00::a'] }, stores);
    expect(asked?.container.command).toEqual(
      expect.arrayContaining([
        '-the DNS server=10.96.0.10,fd00::a:53',
        '-the DNS server=10.96.0.10,fd00::a:53/udp',
      ]),
    );
  });

  test('includes the DNS servers that are not in the operator’s own pod', () => {
    const all = ['10.96.0.10', 'fd00::a', '169.254.20.10', '127.0.0.53', '::1', '10.0.0.1:1053'];
    expect(dnsServersOf(all)).toEqual(['10.96.0.10', 'fd00::a', '169.254.20.10']);
  });

  test('has the addresses of its node from the kubelet', () => {
    expect(question.container.env).toEqual([
      { name: 'NODE', valueFrom: { fieldRef: { apiVersion: 'v1', fieldPath: 'status.hostIPs' } } },
    ]);
  });

  test('includes only addresses, also those that only look like the pod itself', () => {
    const servers = ['10.127.0.1', '::1234', 'dns.example', '127.0.0.53', '::1'];
    expect(dnsServersOf(servers)).toEqual(['10.127.0.1', '::1234']);
  });

  test('does not exist without a canary or PostgreSQL, or with one of another namespace', () => {
    expect(ask(canary)).toBeUndefined();
    expect(ask(postgres)).toBeUndefined();
    expect(ask(postgres, service('canary', ['None']))).toBeUndefined();
    expect(ask(postgres, service('canary', ['10.0.0.7'], 'home-household'))).toBeUndefined();
  });

  test.each<[string, Node, Question | undefined]>([
    ['boot', { ...node, status: { ...node.status, nodeInfo: { bootID: 'b2' } } }, question],
    [
      'start of the network plugin',
      {
        ...node,
        status: {
          ...node.status,
          conditions: [
            { type: 'NetworkUnavailable', status: 'False', lastTransitionTime: '2026-01-02T00:00:00Z' },
          ],
        },
      },
      question,
    ],
    ['canary', node, ask(service('canary', ['10.0.0.8']), postgres)],
  ])('is asked again after another %s', (_, other, then) =>
    expect(probeName(then as Question, other)).not.toBe(probeName(question, node)),
  );
});

describe('a record', () => {
  function record(changes: object = {}, container: object = {}): Pod {
    const { metadata, spec } = probeObject(question, node) as unknown as Required<Pod>;
    const [only] = spec.containers ?? [];
    return {
      metadata: { ...metadata, creationTimestamp: '2026-01-01T00:00:00Z' },
      spec: { ...spec, nodeName: 'n1', containers: [{ ...only, ...container } as never], ...changes },
      status: { phase: 'Succeeded' },
    };
  }
  const judged = (pod: Pod) => proofOf(question, node, [pod]).verdict;

  test('counts if its pod is as the operator created it', () => expect(judged(record())).toBe('passed'));

  test.each<[string, Pod]>([
    ['asked less', record({}, { command: ['/attest', 'prove', '+PostgreSQL=10.0.0.5:5432'] })],
    ['asked nothing', record({}, { command: ['/attest'] })],
    ['was told of another node', record({}, { env: [{ name: 'NODE', value: '192.0.2.1' }] })],
    [
      'was told of another API server',
      record(
        {},
        { env: [...(question.container.env ?? []), { name: 'KUBERNETES_SERVICE_HOST', value: '192.0.2.1' }] },
      ),
    ],
    ['ran elsewhere', record({ nodeName: 'n2' })],
    ['ran outside the sandbox', record({ runtimeClassName: undefined })],
    ['was of another image', record({}, { image: 'registry.test/yes:1' })],
  ])('proves nothing if its pod %s', (_, pod) => expect(judged(pod)).toBe('failed'));

  test.each<[string, number, object]>([
    ['holds for its time', 59, { remove: [], make: false, lookAgainMs: 60_000 }],
    ['is made anew after it', 60, { remove: [expect.anything()], make: false }],
  ])('%s', (_, minutes, expected) =>
    expect(
      planProbe({
        question,
        runtimeClass: { metadata: { name: 'gvisor' }, handler: 'runsc' },
        node,
        probes: [record()],
        outside: [],
        ageMs: () => minutes * 60_000,
        freshMs: 60 * 60_000,
      }),
    ).toEqual(expected),
  );
});

describe('walls', () => {
  const wall = (name: string, proof: Proof, open = true): Walls => ({ node: name, proof, open });
  const reached: Proof = {
    verdict: 'failed',
    found: 'reached: the API server (10.0.0.1 port 443)',
    exitCode: 3,
  };
  const passed: Proof = { verdict: 'passed' };

  test.each<[string, Walls[], string, string]>([
    ['no node is there', [], 'Unknown EnforcementUnproven', 'A probe can be scheduled on no node'],
    [
      'none was asked',
      [wall('a', { verdict: 'untried' })],
      'Unknown EnforcementUnproven',
      '"a": a probe has',
    ],
    [
      'the scheduler has no place for the probe',
      [wall('a', { verdict: 'running', found: 'the scheduler does not assign its pod to that node' })],
      'Unknown EnforcementUnproven',
      'does not assign',
    ],
    [
      'nothing at all was reached',
      [wall('a', { verdict: 'failed', found: 'not reached: PostgreSQL (10.0.0.5 port 5432)', exitCode: 4 })],
      'Unknown EnforcementUnproven',
      'not reached: PostgreSQL',
    ],
    [
      'the probe was planted',
      [wall('a', { verdict: 'failed', found: 'its pod is not the one that the operator created' })],
      'Unknown EnforcementUnproven',
      'not the one',
    ],
    ['one was proved', [wall('a', { verdict: 'running' }), wall('b', passed)], 'True Ready', ''],
    ['the one that was proved rests', [wall('a', passed, false)], 'True Ready', ''],
    [
      'something was reached on one of two',
      [wall('b', passed), wall('a', reached)],
      'False EnforcementFailed',
      'On node "a" a pod that may reach only PostgreSQL reached: the API server',
    ],
    [
      'it was reached on three',
      [wall('b', reached), wall('a', reached), wall('c', reached)],
      'False EnforcementFailed',
      'On node "a" a pod',
    ],
    [
      'two were not proved yet',
      [wall('b', { verdict: 'untried' }), wall('a', { verdict: 'untried' })],
      'Unknown EnforcementUnproven',
      'Node "a": a probe has not ended yet',
    ],
    [
      'it was reached on one that is cordoned',
      [wall('a', reached, false), wall('b', passed)],
      'True Ready',
      '',
    ],
    [
      'it was reached on the only one, which is cordoned',
      [wall('a', reached, false)],
      'Unknown EnforcementUnproven',
      '',
    ],
  ])('are judged where %s', (_, walls, expected, message) => {
    const finding = decideNetwork(walls);
    expect(`${finding.status} ${finding.reason}`).toBe(expected);
    expect(finding.message).toContain(message);
  });
});
