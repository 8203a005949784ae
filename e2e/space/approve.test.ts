/** Who may set an annotation that allows something, according to a real API server with the chart's policies. */

import { manifestDigest } from '@space/manifests';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { decideApproval } from '../../operator/assistant/decide.ts';
import { manifest } from '../../operator/testing/manifest.ts';
import { eventually } from '../../testing/eventually.ts';
import type { KubeObject } from './kube-object.ts';
import { type Caller, type PolicyServer, startPolicyServer } from './testing/policy-server.ts';

const GROUP = 'platform.space';
const CAPSULES = '/apis/platform.space/v1/namespaces/home/capsules';
const ASSISTANTS = '/apis/platform.space/v1/namespaces/home/assistants';
const LEDGER = `${ASSISTANTS}/ledger`;
const CASES = [
  ['approved', 'approve', `sha256:${'0'.repeat(64)}`],
  ['rotate', 'rotate', 'today'],
  ['open', 'open', 'true'],
] as const;

let policyServer: PolicyServer;
/**
 * Callers by the verb that each has on the Capsule `household`, in addition to all rights on the objects themselves.
 */
const callers: Record<string, Caller> = {};

const annotated = (key: string, value: string | null) => ({
  metadata: { annotations: { [`${GROUP}/${key}`]: value } },
});
const assistant = (name: string, capsule: string) => ({
  apiVersion: `${GROUP}/v1`,
  kind: 'Assistant',
  metadata: { name },
  spec: { capsule, image: 'registry.test/ledger:1', manifest: manifest('ledger') },
});
const may = (verbs: readonly string[]) => ({
  apiGroups: [GROUP],
  resources: ['capsules'],
  resourceNames: ['household'],
  verbs,
});
const refused = (says: string) => ({ status: 403, text: expect.stringContaining(says) });
const taken = (status: number) => ({ status, text: expect.any(String) });
const asked = (who: string, ...what: Parameters<Caller>) => callers[who]?.(...what);

/** Whether the API server would write the creator's name on the object. */
async function isMarked(path: string, body: object): Promise<boolean> {
  const { client } = policyServer.server;
  const made = await client.call<KubeObject>({ method: 'POST', path, query: { dryRun: 'All' }, body });
  return made.metadata.annotations?.[`${GROUP}/installed-by`] !== undefined;
}

beforeAll(async () => {
  policyServer = await startPolicyServer(
    ['home'],
    ['admissionregistration.k8s.io/v1/MutatingAdmissionPolicy'],
  );
  const household = {
    apiVersion: `${GROUP}/v1`,
    kind: 'Capsule',
    metadata: { name: 'household' },
    spec: {},
  };
  // A policy that changes objects of a new kind knows that kind some seconds later, and is itself in force a moment
  // after it was created.
  for (const [path, body] of [
    [CAPSULES, household],
    [ASSISTANTS, assistant('ledger', 'household')],
  ] as const)
    await eventually(() => isMarked(path, body), { what: 'the kinds are known' });
  await policyServer.create(CAPSULES, household);
  await policyServer.create(ASSISTANTS, assistant('ledger', 'household'));
  await policyServer.create(ASSISTANTS, assistant('neighbour', 'cabin'));
  const all = { apiGroups: [GROUP], resources: ['assistants', 'capsules'], verbs: ['create', 'patch'] };
  for (const verb of ['deploy', 'approve', 'rotate', 'open'])
    callers[verb] = await policyServer.caller(`may-${verb}`, [all, may(['deploy', verb])]);
  // Policies are in force, and rights are known, a moment after they were created.
  const known = async () => {
    for (const [key, verb, value] of CASES) {
      expect(await asked('deploy', 'PATCH', LEDGER, annotated(key, value))).toEqual(refused(verb));
      expect(await asked(verb, 'PATCH', LEDGER, annotated(key, value))).toEqual(taken(200));
    }
    return true;
  };
  await eventually(known, { what: 'rights and policies are known' });
}, 900_000);

afterAll(() => policyServer?.stop());

it.each(CASES)(
  '%s is set, changed and removed only by a caller with the verb %s',
  async (key, verb, value) => {
    const says = `you may not change the annotation platform.space/${key}. You need the verb ${verb} on capsules.platform.space/household`;
    const born = {
      ...assistant('born', 'household'),
      metadata: { name: 'born', ...annotated(key, value).metadata },
    };
    const change = (to: string | null) =>
      policyServer.server.client.call({
        method: 'PATCH',
        path: LEDGER,
        contentType: 'application/merge-patch+json',
        body: annotated(key, to),
      });
    for (const who of Object.keys(callers)) {
      const verdict = (status: number) => (who === verb ? taken(status) : refused(says));
      expect(await asked(who, 'PATCH', LEDGER, annotated(key, value))).toEqual(verdict(200));
      expect(await asked(who, 'PATCH', `${CAPSULES}/household`, annotated(key, value))).toEqual(verdict(200));
      expect(await asked(who, 'POST', ASSISTANTS, born)).toEqual(verdict(201));
      await change(value);
      expect(await asked(who, 'PATCH', LEDGER, annotated(key, `${value}0`))).toEqual(verdict(200));
      expect(await asked(who, 'PATCH', LEDGER, annotated(key, null))).toEqual(verdict(200));
      expect(await asked(who, 'PATCH', LEDGER, annotated('note', 'x'))).toEqual(taken(200));
      await change(null);
    }
  },
);

it('a verb on one Capsule is none on another', async () => {
  for (const [key, verb, value] of CASES)
    expect(await asked(verb, 'PATCH', `${ASSISTANTS}/neighbour`, annotated(key, value))).toEqual(
      refused('capsules.platform.space/cabin'),
    );
});

it('the annotation that a condition asks for is the one that the verb approve allows', async () => {
  const asks = manifest('ledger', { network: { allowed_hosts: ['api.bank.org'] } });
  const { metadata, spec } = assistant('ledger', 'household');
  const capsule = { metadata: { name: 'household' }, spec: { approval: 'manual' } } as const;
  const told = decideApproval(
    { metadata, spec: { ...spec, manifest: asks } },
    { manifest: asks, digest: manifestDigest(asks) },
    capsule,
  );
  const [, key = '', value = ''] =
    /annotate --overwrite assistant ledger platform\.space\/(\S+)=(\S+)$/.exec(told?.message ?? '') ?? [];
  expect(value).toBe(`sha256:${manifestDigest(asks)}`);
  expect(told?.message).toContain('the verb approve on capsules/household');
  expect(await asked('deploy', 'PATCH', LEDGER, annotated(key, value))).toEqual(refused('the verb approve'));
  expect(await asked('approve', 'PATCH', LEDGER, annotated(key, value))).toEqual(taken(200));
});

it('an approver can name only themselves, beside the digest that they approve', async () => {
  const [one, other] = ['1', '2'].map((digit) => `sha256:${digit.repeat(64)}`);
  const name = 'system:serviceaccount:home:may-approve';
  const approve = (approved: string | null | undefined, by: string | null | undefined) =>
    asked('approve', 'PATCH', LEDGER, {
      metadata: {
        annotations: {
          ...(approved === undefined ? {} : { [`${GROUP}/approved`]: approved }),
          ...(by === undefined ? {} : { [`${GROUP}/approved-by`]: by }),
        },
      },
    });
  const wrong = refused(`since you are the person who approves`);
  expect(await approve(one, `${one} system:serviceaccount:home:somebody`)).toEqual(wrong);
  expect(await approve(one, name)).toEqual(wrong);
  expect(await approve(one, `${other} ${name}`)).toEqual(wrong);
  expect(await approve(one, `${one} ${name}`)).toEqual(taken(200));
  // Approving the same digest again does not restore another person's name from an earlier time.
  const administrator = (annotations: object) =>
    policyServer.server.client.call({
      method: 'PATCH',
      path: LEDGER,
      contentType: 'application/merge-patch+json',
      body: { metadata: { annotations } },
    });
  await administrator({ [`${GROUP}/approved`]: one, [`${GROUP}/approved-by`]: `${one} admin` });
  expect(await approve(undefined, `${one} system:serviceaccount:home:somebody`)).toEqual(wrong);
  expect(await approve(other, undefined)).toEqual(taken(200));
  await administrator({ [`${GROUP}/approved`]: other });
  expect(await approve(one, undefined)).toEqual(wrong);
  expect(await approve(one, null)).toEqual(taken(200));
  expect(await approve(one, `${one} ${name}`)).toEqual(taken(200));
  expect(
    await asked(
      'deploy',
      'PATCH',
      LEDGER,
      annotated('approved-by', `${one} system:serviceaccount:home:may-deploy`),
    ),
  ).toEqual(refused('the verb approve'));
  await administrator({ [`${GROUP}/approved`]: null, [`${GROUP}/approved-by`]: null });
});

it('an earlier approval prevents neither other changes nor the approval of a new version', async () => {
  const [one, other] = ['3', '4'].map((digit) => `sha256:${digit.repeat(64)}`);
  const approved = {
    ...assistant('approved', 'household'),
    metadata: {
      name: 'approved',
      annotations: { [`${GROUP}/approved`]: one, [`${GROUP}/approved-by`]: `${one} admin` },
    },
  };
  await policyServer.create(ASSISTANTS, approved);
  const path = `${ASSISTANTS}/approved`;
  expect(await asked('deploy', 'PATCH', path, annotated('note', 'x'))).toEqual(taken(200));
  // The name stays beside a digest that is no longer the approved one.
  expect(await asked('approve', 'PATCH', path, annotated('approved', other ?? ''))).toEqual(taken(200));
});

it('a person who adds a line to the record can end it only with their own name, and keeps or removes those of others', async () => {
  const line = (who: string) => `2026-11-22T20:00:00Z suspended - ${who}`;
  const [mine, other] = ['deploy', 'approve'].map((verb) => line(`system:serviceaccount:home:may-${verb}`));
  const wrong = refused('each line that you add to platform.space/record must end with your own name');
  const write = (path: string, lines: readonly (string | undefined)[]) =>
    asked('deploy', 'PATCH', path, annotated('record', lines.join('\n')));
  for (const path of [LEDGER, `${CAPSULES}/household`]) {
    for (const lie of [other, line('may-deploy'), `${mine} `, `${mine}x`, 'suspended', `x ${mine}`])
      expect(await write(path, [mine, lie])).toEqual(wrong);
    expect(await write(path, [mine, mine])).toEqual(taken(200));
    await policyServer.server.client.call({
      method: 'PATCH',
      path,
      contentType: 'application/merge-patch+json',
      body: annotated('record', line('admin')),
    });
    expect(await write(path, [mine, line('admin')])).toEqual(taken(200));
    expect(await write(path, [mine])).toEqual(taken(200));
    expect(await write(path, [mine, other, line('admin')])).toEqual(wrong);
    expect(await asked('deploy', 'PATCH', path, annotated('note', 'x'))).toEqual(taken(200));
    expect(await write(path, [])).toEqual(taken(200));
  }
  const born = {
    ...assistant('born', 'household'),
    metadata: { name: 'born', ...annotated('record', other ?? '').metadata },
  };
  expect(await asked('deploy', 'POST', ASSISTANTS, born)).toEqual(wrong);
});

it('in another namespace such annotations have no effect', async () => {
  const elsewhere = ASSISTANTS.replace('/home/', '/default/');
  const all = { apiGroups: [GROUP], resources: ['assistants'], verbs: ['create'] };
  callers['elsewhere'] = await policyServer.caller('elsewhere', [all], ['default']);
  const opened = {
    ...assistant('opened', 'household'),
    metadata: { name: 'opened', ...annotated('open', 'true').metadata },
  };
  const made = await eventually(
    async () => {
      const verdict = await asked('elsewhere', 'POST', elsewhere, opened);
      return verdict?.status === 201 ? verdict : undefined;
    },
    { what: 'its Role is known, and nothing else is asked' },
  );
  // The API server does not write the creator's name there either.
  expect(made.text).not.toContain('installed-by');
  delete callers['elsewhere'];
});

it('the API server writes the creator’s name on an object, and it stays whatever anybody writes', async () => {
  const key = `${GROUP}/installed-by`;
  const told = (verdict: { readonly text: string } | undefined) =>
    JSON.parse(verdict?.text ?? '{}').metadata.annotations?.[key];
  const made = (annotations?: object) => ({
    ...assistant('born', 'household'),
    metadata: { name: 'born', ...(annotations === undefined ? {} : { annotations }) },
  });
  const name = 'system:serviceaccount:home:may-deploy';
  for (const annotations of [undefined, {}, { note: 'x' }, { [key]: name }, { [key]: 'somebody' }])
    expect(told(await asked('deploy', 'POST', ASSISTANTS, made(annotations)))).toBe(name);
  const capsule = { apiVersion: `${GROUP}/v1`, kind: 'Capsule', metadata: { name: 'new' }, spec: {} };
  expect(told(await asked('deploy', 'POST', CAPSULES, capsule))).toBe(name);
  // The administrator of the test has created these objects.
  for (const path of [LEDGER, `${CAPSULES}/household`])
    for (const value of ['somebody', null, 'admin', name])
      expect(told(await asked('deploy', 'PATCH', path, annotated('installed-by', value)))).toBe('admin');
});

describe('where the API server does not write who made it', () => {
  const bindings = '/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings';
  const path = `${bindings}/home-installed-by`;
  const plain = (name: string) => ({ ...assistant(name, 'household'), metadata: { name } });
  const makes = async () => {
    const { text = '{}' } = (await asked('deploy', 'POST', ASSISTANTS, plain('judged'))) ?? {};
    return (JSON.parse(text) as { metadata: { annotations?: object } }).metadata.annotations;
  };
  let spec: object;

  it('it is nobody’s to claim', async () => {
    const { client } = policyServer.server;
    ({ spec } = await client.call<{ spec: object }>({ method: 'GET', path }));
    await client.call({ method: 'DELETE', path });
    await eventually(async () => (await makes()) === undefined, { what: 'nobody writes it' });
    const wrong = refused('if you create the object');
    const name = 'system:serviceaccount:home:may-deploy';
    const as = (by: string) => ({
      ...plain('judged'),
      metadata: { name: 'judged', ...annotated('installed-by', by).metadata },
    });
    expect(await asked('deploy', 'POST', ASSISTANTS, as('somebody'))).toEqual(wrong);
    expect(await asked('deploy', 'POST', ASSISTANTS, as(name))).toEqual(taken(201));
    expect(await asked('deploy', 'PATCH', LEDGER, annotated('installed-by', name))).toEqual(wrong);
    expect(await asked('deploy', 'PATCH', LEDGER, annotated('installed-by', 'admin'))).toEqual(taken(200));
    await policyServer.create(ASSISTANTS, plain('plain'));
    expect(await asked('deploy', 'PATCH', `${ASSISTANTS}/plain`, annotated('installed-by', name))).toEqual(
      wrong,
    );
  });

  it('an object that was created meanwhile gets no name later', async () => {
    const body = { metadata: { name: 'home-installed-by' }, spec };
    await policyServer.server.client.call({ method: 'POST', path: bindings, body });
    await eventually(async () => (await makes()) !== undefined, { what: 'it is written again' });
    const verdict = await asked('deploy', 'PATCH', `${ASSISTANTS}/plain`, annotated('note', 'x'));
    expect(verdict?.text).not.toContain('installed-by');
  });
});
