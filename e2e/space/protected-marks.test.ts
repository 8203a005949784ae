/**
 * Finalizers and labels by which the operator recognises what it has created, according to a real API server with the
 * chart's policies.
 */

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ASSISTANT_FINALIZER, CAPSULE_FINALIZER } from '../../operator/names.ts';
import { manifest } from '../../operator/testing/manifest.ts';
import { eventually } from '../../testing/eventually.ts';
import {
  asOperator,
  type Caller,
  holdLease,
  named,
  type PolicyServer,
  startPolicyServer,
} from './testing/policy-server.ts';

const GROUP = 'platform.space';
const SPACE = `/apis/${GROUP}/v1/namespaces/home`;
const CAPSULE = 'home-household-0123abcd';
const OPENED = 'home-opened-0123abcd';
const open = { 'platform.space/open': 'true' };

let policyServer: PolicyServer;
let deployer: Caller;
let administrator: Caller;
let operator: Caller;
let controller: Caller;

const done = { status: 200, text: expect.any(String) };
const refused = (says: string) => ({ status: 403, text: expect.stringContaining(says) });
const OBJECTS = [
  ['assistants', ASSISTANT_FINALIZER],
  ['capsules', CAPSULE_FINALIZER],
] as const;

const labels = {
  'platform.space/space': 'home',
  'platform.space/capsule': 'household',
  'platform.space/assistant': 'ledger',
};
const owner = { apiVersion: 'apps/v1', kind: 'ReplicaSet', name: 'ledger', uid: 'u', controller: true };
const meta = {
  name: 'ledger',
  labels: { ...labels, 'pod-template-hash': 'x' },
  annotations: { 'platform.space/owner-uid': 'u' },
  ownerReferences: [owner],
};
const template = { metadata: { labels }, spec: { containers: [{ name: 'x', image: 'registry.test/x:1' }] } };
const controls = { selector: { matchLabels: labels }, template };
const made = (namespace: string): readonly (readonly [string, object])[] => [
  [`/api/v1/namespaces/${namespace}/pods`, { metadata: meta, spec: template.spec }],
  [`/apis/apps/v1/namespaces/${namespace}/deployments`, { metadata: meta, spec: controls }],
  [`/apis/apps/v1/namespaces/${namespace}/replicasets`, { metadata: meta, spec: controls }],
];

beforeAll(async () => {
  policyServer = await startPolicyServer();
  const { create, server } = policyServer;
  // The objects are created before the namespaces get their labels, since no controllers run here that could create
  // them later.
  for (const name of [CAPSULE, OPENED]) {
    await create('/api/v1/namespaces', named(name, {}, name === OPENED ? open : {}));
    for (const [path, object] of made(name)) await create(path, object);
    await server.client.call({
      method: 'PATCH',
      path: `/api/v1/namespaces/${name}`,
      contentType: 'application/merge-patch+json',
      body: {
        metadata: { labels: { 'platform.space/space': 'home', 'platform.space/capsule': 'household' } },
      },
    });
  }
  await create('/api/v1/namespaces', named('cabin', { ...labels, 'platform.space/space': 'cabin' }));
  for (const name of ['home', 'cabin']) for (const [path, object] of made(name)) await create(path, object);
  await create(`${SPACE.replace(/home$/, 'default')}/capsules`, {
    apiVersion: `${GROUP}/v1`,
    kind: 'Capsule',
    metadata: { name: 'elsewhere', finalizers: [CAPSULE_FINALIZER, 'test.space/other'] },
    spec: {},
  });
  const plain = { apiVersion: `${GROUP}/v1`, kind: 'Capsule', metadata: { name: 'plain' }, spec: {} };
  await create(`${SPACE}/capsules`, plain);
  for (const [name, annotations] of Object.entries({ closed: {}, opened: open })) {
    for (const [plural, finalizer] of OBJECTS) {
      const spec =
        plural === 'capsules'
          ? {}
          : { capsule: 'household', image: 'registry.test/x:1', manifest: manifest('ledger') };
      await create(`${SPACE}/${plural}`, {
        apiVersion: `${GROUP}/v1`,
        kind: plural === 'capsules' ? 'Capsule' : 'Assistant',
        metadata: { name, annotations, finalizers: [finalizer, 'test.space/other'] },
        spec,
      });
    }
  }
  const kinds = { apiGroups: [GROUP], resources: ['assistants', 'capsules'], verbs: ['patch', 'deploy'] };
  deployer = await policyServer.caller('deployer', [kinds]);
  administrator = await policyServer.administrator();
  controller = await policyServer.controller('replicaset-controller');
  operator = await asOperator(policyServer);
  await holdLease(policyServer, 'operator');
  const holds = async () => {
    const changes = { metadata: { labels: { a: 'b' } } };
    for (const ask of [deployer, operator, administrator])
      expect(await ask('PATCH', `${SPACE}/assistants/closed`, changes)).toEqual(done);
    const pod = `/api/v1/namespaces/${CAPSULE}/pods/ledger`;
    expect(await controller('PATCH', pod, changes)).toEqual(done);
    const none = { metadata: { finalizers: null, ownerReferences: null } };
    expect((await deployer('PATCH', `${SPACE}/assistants/closed`, none)).status).toBe(403);
    expect((await administrator('PATCH', pod, none)).status).toBe(403);
    return true;
  };
  await eventually(holds, { what: 'rights to be known' });
}, 900_000);

afterAll(() => policyServer?.stop());

describe.each(OBJECTS)('the operator’s finalizer of %s', (plural, finalizer) => {
  const without = { metadata: { finalizers: ['test.space/other'] } };
  const path = (name: string) => `${SPACE}/${plural}/${name}`;

  it('is removed by nobody else', async () => {
    const says = `only the operator removes ${finalizer}`;
    for (const ask of [deployer, administrator]) {
      expect(await ask('PATCH', path('closed'), without)).toEqual(refused(says));
      expect(await ask('PATCH', path('closed'), { metadata: { finalizers: null } })).toEqual(refused(says));
    }
    expect(await operator('PATCH', path('closed'), without)).toEqual(done);
  });

  it('does not prevent the removal of other finalizers', async () => {
    expect(await deployer('PATCH', path('closed'), { metadata: { finalizers: [finalizer] } })).toEqual(done);
  });

  it('can be removed if an administrator has opened the object', async () => {
    expect(await deployer('PATCH', path('closed'), { metadata: { annotations: open } })).toEqual(
      refused('the verb open'),
    );
    expect(await administrator('PATCH', path('opened'), without)).toEqual(done);
  });
});

it('an object without the operator’s finalizer is changed by anybody who has the right', async () => {
  const plain = `${SPACE}/capsules/plain`;
  expect(await administrator('PATCH', plain, { metadata: { labels: { a: 'b' } } })).toEqual(done);
});

it('a Capsule is not deleted by the cluster for somebody who may not, by an owner that is gone', async () => {
  const gone = { apiVersion: 'v1', kind: 'ConfigMap', name: 'gone', uid: 'gone' };
  const metadata = { ownerReferences: [gone] };
  const says = refused('You need the verb delete on capsules.platform.space/plain in the namespace home');
  expect(await deployer('PATCH', `${SPACE}/capsules/plain`, { metadata })).toEqual(says);
  expect(await administrator('PATCH', `${SPACE}/capsules/plain`, { metadata })).toEqual(done);
  const kept = { name: 'owned', ownerReferences: [gone] };
  await policyServer.create(`${SPACE}/capsules`, {
    apiVersion: `${GROUP}/v1`,
    kind: 'Capsule',
    metadata: kept,
    spec: {},
  });
  const path = `${SPACE}/capsules/owned`;
  const other = { metadata: { ownerReferences: [{ ...gone, name: 'other' }] } };
  expect(await deployer('PATCH', path, other)).toEqual(refused('You need the verb delete on'));
  expect(await deployer('PATCH', path, { metadata: { labels: { a: 'b' } } })).toEqual(done);
  expect(await deployer('PATCH', path, { metadata: { ownerReferences: null } })).toEqual(done);
  // For Assistants, the right to deploy decides (deploy.yaml).
  expect(await deployer('PATCH', `${SPACE}/assistants/closed`, { metadata })).toEqual(done);
});

it('in another namespace only the roles there decide about a Capsule’s finalizer', async () => {
  const elsewhere = `${SPACE.replace(/home$/, 'default')}/capsules/elsewhere`;
  const metadata = { finalizers: ['test.space/other'] };
  expect(await administrator('PATCH', elsewhere, { metadata })).toEqual(done);
  expect(await administrator('PATCH', elsewhere, { metadata: { labels: { a: 'b' } } })).toEqual(done);
});

describe.each(made(CAPSULE).map(([path]) => path))('of %s', (path) => {
  const CHANGES: [string, object][] = [
    ['whose it is', { labels: { 'platform.space/capsule': 'mine' } }],
    ['what it runs', { labels: { 'platform.space/assistant': null } }],
    ['what made it', { labels: { 'pod-template-hash': 'y' } }],
    ['what it is besides', { labels: { 'platform.space/component': 'egress' } }],
    ['its owner', { annotations: { 'platform.space/owner-uid': 'mine' } }],
    ['the object that owns it', { ownerReferences: null }],
  ];

  it.each(CHANGES)('nobody changes what says %s', async (_, metadata) => {
    expect(await administrator('PATCH', `${path}/ledger`, { metadata })).toEqual(
      refused('kubectl annotate namespace home-household-0123abcd platform.space/open=true'),
    );
    const opened = path.replace(CAPSULE, OPENED);
    expect(await administrator('PATCH', `${opened}/ledger`, { metadata })).toEqual(done);
  });

  /** The fields that a write of the status may change (Kubernetes leaves the others as they were). */
  const LEFT: Readonly<Record<string, RegExp>> = { pods: /owns/, deployments: /whose|runs|made|besides/ };
  const plural = path.replace(/.*\//, '');

  it.each(CHANGES.filter(([what]) => !LEFT[plural]?.test(what)))(
    'nobody changes what says %s with its status',
    async (_, metadata) => {
      expect(await administrator('PATCH', `${path}/ledger/status`, { metadata })).toEqual(
        refused('kubectl annotate namespace home-household-0123abcd platform.space/open=true'),
      );
      const opened = path.replace(CAPSULE, OPENED);
      expect(await administrator('PATCH', `${opened}/ledger/status`, { metadata })).toEqual(done);
    },
  );

  it('the program that runs it writes its status', async () => {
    const reason = { conditions: [{ type: 'Ready', status: 'False', reason: 'x' }] };
    expect(await administrator('PATCH', `${path}/ledger/status`, { status: reason })).toEqual(done);
    const note = { annotations: { 'cni.projectcalico.org/podIP': '192.0.2.1/32' }, labels: { team: 'x' } };
    expect(await administrator('PATCH', `${path}/ledger/status`, { metadata: note })).toEqual(done);
  });

  it('the operator changes what says what it runs', async () => {
    // Only one annotation of a pod may be changed, and nothing of a ReplicaSet.
    if (!path.endsWith('deployments')) return;
    const metadata = { labels: { 'platform.space/assistant': 'other' } };
    expect(await operator('PATCH', `${path}/ledger`, { metadata })).toEqual(done);
  });

  it('objects outside of this Space’s Capsules are not protected', async () => {
    for (const name of ['home', 'cabin']) {
      const metadata = { labels: { 'platform.space/component': 'egress' } };
      expect(await administrator('PATCH', `${path.replace(CAPSULE, name)}/ledger`, { metadata })).toEqual(
        done,
      );
    }
  });

  it('other labels may be changed', async () => {
    const metadata = { labels: { team: 'books' }, finalizers: ['test.space/x'] };
    expect(await administrator('PATCH', `${path}/ledger`, { metadata })).toEqual(done);
  });
});

it('the cluster’s controllers release and adopt pods', async () => {
  const metadata = { ownerReferences: null };
  const pod = `/api/v1/namespaces/${CAPSULE}/pods/ledger`;
  expect(await controller('PATCH', pod, { metadata })).toEqual(done);
  expect(await controller('PATCH', pod, { metadata: { labels: { 'platform.space/capsule': 'x' } } })).toEqual(
    refused('platform.space/open=true'),
  );
});

it('a namespace in deletion protects none of its objects', async () => {
  const { client } = policyServer.server;
  const name = 'home-going-0123abcd';
  const path = `/api/v1/namespaces/${name}`;
  await policyServer.create('/api/v1/namespaces', named(name, {}, open));
  const [[pods, pod] = ['', {}]] = made(name);
  await policyServer.create(pods, pod);
  const patch = (body: object) =>
    client.call({ method: 'PATCH', path, contentType: 'application/merge-patch+json', body });
  await patch({
    metadata: { labels: { 'platform.space/space': 'home', 'platform.space/capsule': 'going' } },
  });
  await client.call({ method: 'DELETE', path });
  await patch({ metadata: { annotations: { 'platform.space/open': null } } });
  const metadata = { ownerReferences: null };
  await eventually(
    async () => (await administrator('PATCH', `${pods}/ledger`, { metadata })).status === 200,
    { what: 'its pods are nobody’s any more' },
  );
});
