/** What in the Space's namespace is the operator's own, asked of a real API server with the chart's policies. */

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../operator/testing/eventually.ts';
import { asOperator, type Caller, holdLease, type Judged, named, startJudged } from './judged.ts';

const SECRETS = '/api/v1/namespaces/home/secrets';
const PODS = '/api/v1/namespaces/home/pods';
const APPS = '/apis/apps/v1/namespaces/home';
const TOKEN = '/api/v1/namespaces/home/serviceaccounts/home-operator/token';
const LEASE = '/apis/coordination.k8s.io/v1/namespaces/home/leases';

let judged: Judged;
let editor: Caller;
let administrator: Caller;
let operator: Caller;

const refused = (says: string) => ({ status: 403, text: expect.stringContaining(says) });
const done = { status: expect.toBeOneOf([200, 201]), text: expect.any(String) };

const pod = (spec: object = {}, labels: object = { app: 'x' }) => ({
  metadata: { name: 'x', labels },
  spec: { containers: [{ name: 'x', image: 'registry.test/x:1' }], ...spec },
});
const template = (spec?: object, labels?: object) => {
  const { metadata, spec: inner } = pod(spec, { app: 'x', ...labels });
  return { metadata: { labels: metadata.labels }, spec: inner };
};
const selecting = (what: object) => ({
  ...named('x'),
  spec: { selector: { matchLabels: { app: 'x' } }, ...what },
});
/** Each kind that makes pods, with the pod that it is to make. */
const KINDS: readonly [string, (spec?: object, labels?: object) => object][] = [
  [PODS, (spec, labels) => pod(spec, { app: 'x', ...labels })],
  [`${APPS}/deployments`, (...of) => selecting({ template: template(...of) })],
  [`${APPS}/replicasets`, (...of) => selecting({ template: template(...of) })],
  [`${APPS}/daemonsets`, (...of) => selecting({ template: template(...of) })],
  [`${APPS}/statefulsets`, (...of) => selecting({ serviceName: 'x', template: template(...of) })],
  [
    '/api/v1/namespaces/home/replicationcontrollers',
    (...of) => ({ ...named('x'), spec: { selector: { app: 'x' }, template: template(...of) } }),
  ],
  ['/apis/batch/v1/namespaces/home/jobs', (spec, labels) => ({ ...named('x'), spec: job(spec, labels) })],
  [
    '/apis/batch/v1/namespaces/home/cronjobs',
    (spec, labels) => ({
      ...named('x'),
      spec: { schedule: '@daily', jobTemplate: { spec: job(spec, labels) } },
    }),
  ],
];
const job = (spec: object = {}, labels?: object) => ({
  template: template({ restartPolicy: 'Never', ...spec }, labels),
});
const asOne = { serviceAccountName: 'home-operator' };
const looksAsOne = { 'platform.space/component': 'operator' };
const tokenRequest = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: {} };

beforeAll(async () => {
  judged = await startJudged();
  administrator = await judged.administrator();
  operator = await asOperator(judged);
  await holdLease(judged, 'operator');
  // Whatever there is in the namespace but roles: more than Kubernetes' own role `edit`.
  const groups = ['', 'apps', 'batch', 'coordination.k8s.io', 'platform.space'];
  const verbs = ['get', 'list', 'create', 'update', 'patch', 'delete'];
  editor = await judged.caller('editor', [{ apiGroups: groups, resources: ['*'], verbs }]);
  await judged.create(`${APPS}/deployments`, {
    ...selecting({ template: template(asOne) }),
    ...named('home-operator'),
  });
  await judged.create(`${APPS}/deployments`, { ...selecting({ template: template() }), ...named('other') });
  // Policies hold and rights are known a moment after they were made.
  const holds = async () => {
    expect(await editor('POST', TOKEN, tokenRequest)).toEqual(refused('would be the operator'));
    expect(await editor('POST', SECRETS, named('capsule-x-database'))).toEqual(
      refused('keeps for a Capsule'),
    );
    expect(await editor('POST', LEASE, named('home-operator2'))).toEqual(done);
    expect(await administrator('POST', SECRETS, named('x'))).toEqual(done);
    expect(await operator('POST', SECRETS, named('x'))).toEqual(done);
    return true;
  };
  await eventually(holds, { what: 'the policies to hold' });
}, 300_000);

afterAll(() => judged?.stop());

describe('the operator’s account', () => {
  it.each(KINDS)('is had by no pod of an editor’s (%s)', async (path, make) => {
    expect(await editor('POST', path, make(asOne))).toEqual(
      refused('would be the operator of the Space home'),
    );
    expect(await editor('POST', path, make({ serviceAccount: 'home-operator' }))).toEqual(
      refused('would be the operator'),
    );
    expect(await editor('POST', path, make({}, looksAsOne))).toEqual(refused('would be the operator'));
    // The keys of the Space are made by these.
    for (const serviceAccountName of ['home-keys', 'home-keys-adopt'])
      expect(await editor('POST', path, make({ serviceAccountName }))).toEqual(refused('keeps its keys'));
    expect(await editor('POST', path, make())).toEqual(done);
    expect(await administrator('POST', path, make(asOne))).toEqual(done);
  });

  it('is not given to a Deployment that is there, nor what runs under it changed', async () => {
    const { spec } = template(asOne);
    const changed = (name: string, what: object) =>
      editor('PATCH', `${APPS}/deployments/${name}`, { spec: { template: what } });
    expect(await changed('other', { spec })).toEqual(refused('would be the operator'));
    const evil = { ...spec, containers: [{ name: 'x', image: 'registry.test/evil:1' }] };
    expect(await changed('home-operator', { spec: evil })).toEqual(refused('would be the operator'));
    expect(await changed('home-operator', { metadata: { annotations: { again: '1' } } })).toEqual(done);
    expect(await changed('other', { metadata: { labels: looksAsOne } })).toEqual(
      refused('would be the operator'),
    );
    await judged.create(PODS, pod());
    const relabelled = { metadata: { labels: looksAsOne } };
    expect(await editor('PATCH', `${PODS}/x`, relabelled)).toEqual(refused('would be the operator'));
  });

  it('has tokens by nobody’s request', async () => {
    for (const account of ['home-operator', 'home-keys']) {
      const path = TOKEN.replace('home-operator', account);
      expect(await editor('POST', path, tokenRequest)).toEqual(refused('would be the operator'));
    }
    const other = TOKEN.replace('home-operator', 'editor');
    expect(await editor('POST', other, tokenRequest)).toEqual(done);
  });

  it('has no lasting token', async () => {
    const ofAccount = (name: string) => ({
      ...named('token', {}, { 'kubernetes.io/service-account.name': name }),
      type: 'kubernetes.io/service-account-token',
    });
    for (const ask of [editor, administrator, operator]) {
      for (const account of ['home-operator', 'home-keys', 'home-keys-adopt']) {
        const verdict = await ask('POST', SECRETS, ofAccount(account));
        expect(verdict).toEqual(
          refused('nobody makes a lasting token of a service account of the Space home'),
        );
      }
    }
    expect(await editor('POST', SECRETS, ofAccount('editor'))).toEqual(done);
  });

  it('is given to its pods by the cluster', async () => {
    const controller = await judged.controller('replicaset-controller');
    await eventually(
      async () => (await controller('POST', PODS, { ...pod(asOne), ...named('y') })).status === 201,
      {
        what: 'the controller makes the operator’s pod',
      },
    );
  });
});

describe('a Secret that the operator keeps for a Capsule', () => {
  const says = 'Who puts one back, or opens one, needs the verb open on all capsules.platform.space';
  const ofCapsule = { 'platform.space/space': 'home', 'platform.space/capsule': 'x' };

  it.each([
    ['by its name', named('capsule-x-database')],
    ['by the name of the other principal', named('capsule-x-y-objectstore')],
    ['by the name of sealed inputs', named('egress-x.ledger')],
    ['by its labels', named('x', ofCapsule)],
    ['as one that was retained', named('x', { 'platform.space/retained': 'true' })],
    ['by its owner', named('x', {}, { 'platform.space/owner-uid': 'u' })],
  ])('is made by nobody else %s', async (_, secret) => {
    expect(await editor('POST', SECRETS, secret)).toEqual(refused(says));
    expect(await administrator('POST', SECRETS, secret)).toEqual(done);
    expect(await operator('POST', SECRETS, secret)).toEqual(done);
  });

  it('is not changed, marked or opened by others', async () => {
    await judged.create(
      SECRETS,
      named('capsule-kept-database', ofCapsule, { 'platform.space/owner-uid': 'u' }),
    );
    await judged.create(SECRETS, named('plain'));
    const path = `${SECRETS}/capsule-kept-database`;
    const changes = [
      { data: { principal: 'eA==' } },
      { metadata: { annotations: { 'platform.space/open': 'true' } } },
      { metadata: { labels: null, annotations: null } },
    ];
    for (const change of changes) {
      expect(await editor('PATCH', path, change)).toEqual(refused(says));
      expect(await administrator('PATCH', path, change)).toEqual(done);
    }
    const mark = { metadata: { labels: { 'platform.space/retained': 'true' } } };
    expect(await editor('PATCH', `${SECRETS}/plain`, mark)).toEqual(refused(says));
  });

  it('is no stored input, nor any other Secret of a person’s', async () => {
    const input = {
      ...named('bank', { 'platform.space/capsule': 'x' }),
      type: 'platform.space/stored-input',
    };
    expect(await editor('POST', SECRETS, input)).toEqual(done);
    expect(await editor('POST', SECRETS, named('capsule-notes'))).toEqual(done);
  });
});

it('the Lease is written by the operator and by who installs the release', async () => {
  const path = `${LEASE}/home-operator`;
  const change = { spec: { holderIdentity: 'somebody' } };
  expect(await editor('PATCH', path, change)).toEqual(refused('says which operator of the Space home works'));
  expect(await administrator('PATCH', path, change)).toEqual(done);
  expect(await editor('POST', LEASE, named('mine'))).toEqual(done);
});
