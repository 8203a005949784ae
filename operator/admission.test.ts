/** The release's admission policies are looked at right before anything is scheduled. */
import { expect, test } from 'vitest';
import { admissionLook, POLICY, POLICY_BINDING } from './admission.ts';
import { ASSISTANT, CONFIG_MAP, DEPLOYMENT } from './kinds.ts';
import { LABEL, policiesName } from './names.ts';
import type { ApiClient } from './runtime/client.ts';
import { type KubeObject, pathOf, type Resource } from './runtime/kube-object.ts';
import { eachFixture } from './testing/fixture.ts';
import { manifest } from './testing/manifest.ts';
import type { TestSpace } from './testing/space.ts';
import type { TestEnvironment } from './testing/test-environment.ts';

const READY = 'True Ready';
let environment: TestEnvironment;
let space: TestSpace;
let home: string;

eachFixture(async (fixture) => {
  ({ environment, space, home } = fixture);
  await space.start();
});

const policy = () => `${space.names.space}-test`;

const remove = (resource: Resource) => async () => {
  const { spec } = (await space.get<KubeObject & { spec: object }>(resource, policy())) ?? {};
  await space.delete(resource, policy());
  return async () => {
    const body = { metadata: { name: policy() }, spec };
    await environment.server.client.call({ method: 'POST', path: pathOf(resource), body });
  };
};

const change = (resource: Resource, breach: object, mend: object) => async () => {
  await space.patch(resource, policy(), { spec: breach });
  return () => space.patch(resource, policy(), { spec: mend });
};

const EXPRESSION = 'object.metadata.name != "refused"';
const WHERE = [{ apiGroups: [''], apiVersions: ['*'], resources: ['configmaps'], operations: ['CREATE'] }];

test.each<[string, string, () => Promise<() => Promise<void>>]>([
  ['a policy that was deleted', 'does not exist', remove(POLICY)],
  ['a binding that was deleted', 'does not exist', remove(POLICY_BINDING)],
  [
    'a binding that only warns',
    'differs from that of the release',
    change(POLICY_BINDING, { validationActions: ['Warn'] }, { validationActions: ['Deny'] }),
  ],
  [
    'an expression that is always true',
    'differs from that of the release',
    change(POLICY, { validations: [{ expression: 'true' }] }, { validations: [{ expression: EXPRESSION }] }),
  ],
  [
    'a condition that nothing meets',
    'differs from that of the release',
    change(POLICY, { matchConditions: [{ name: 'never', expression: 'false' }] }, { matchConditions: [] }),
  ],
  [
    'a failure that lets through',
    'differs from that of the release',
    change(POLICY, { failurePolicy: 'Ignore' }, { failurePolicy: 'Fail' }),
  ],
  [
    'an exception',
    'differs from that of the release',
    change(
      POLICY,
      { matchConstraints: { excludeResourceRules: WHERE } },
      { matchConstraints: { excludeResourceRules: null } },
    ),
  ],
])(
  'with %s nothing new is scheduled, and scheduling resumes by itself once it is repaired',
  async (_, what, breach) => {
    const namespace = await space.settled();
    const running = await space.get(DEPLOYMENT, 'ledger', namespace);
    // What the operator has seen of them may be some seconds old.
    await space.stop();
    const mend = await breach();
    await space.start();
    await space.assistant('second', { capsule: home, manifest: manifest('second') });
    await space.becomes(ASSISTANT, 'second', 'WorkloadReady', 'False PolicyNotInForce');
    expect(await space.message(ASSISTANT, 'second', 'Ready')).toMatch(
      new RegExp(`ValidatingAdmissionPolicy(Binding)? "${policy()}" ${what}.*helm upgrade`),
    );
    expect(await space.get(DEPLOYMENT, 'second', namespace)).toBeUndefined();
    await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
    expect((await space.get(DEPLOYMENT, 'ledger', namespace))?.metadata.generation).toBe(
      running?.metadata.generation,
    );
    await mend();
    await space.becomes(ASSISTANT, 'second', 'Ready', READY);
  },
);

test.each<[string, string, () => Promise<void>]>([
  [
    'which there are is not written down',
    'does not exist',
    () => space.delete(CONFIG_MAP, policiesName(space.names.space), space.names.systemNamespace),
  ],
  [
    'none is written down',
    'does not list them',
    () =>
      space.patch(
        CONFIG_MAP,
        policiesName(space.names.space),
        { data: { specs: '{}' } },
        space.names.systemNamespace,
      ),
  ],
])('where %s, nothing is scheduled', async (_, what, breach) => {
  await breach();
  await space.capsule(home);
  await space.assistant('ledger', { capsule: home });
  await space.becomes(ASSISTANT, 'ledger', 'WorkloadReady', 'False PolicyNotInForce');
  expect(await space.message(ASSISTANT, 'ledger', 'Ready')).toContain(what);
});

const { signal } = new AbortController();

/** What is asked of the API server, in order, by the look of somebody who sees all of it. */
function looking() {
  const { client } = environment.server;
  const asked: string[] = [];
  const call: ApiClient['call'] = (request) => {
    asked.push(request.path);
    return client.call(request);
  };
  return { asked, look: admissionLook({ client: { ...client, call }, names: space.names }, () => 0) };
}

test('two list requests read all policies and bindings', async () => {
  const { asked, look } = looking();
  expect(await look(signal)).toBeUndefined();
  expect(asked.slice(1).sort()).toEqual([POLICY_BINDING, POLICY].map((resource) => pathOf(resource)).sort());
});

test('a policy that has lost its label is read by its name, and counts as in force', async () => {
  await space.patch(POLICY, policy(), { metadata: { labels: { [LABEL.space]: null } } });
  const { asked, look } = looking();
  expect(await look(signal)).toBeUndefined();
  expect(asked).toContain(pathOf(POLICY, undefined, policy()));
});
