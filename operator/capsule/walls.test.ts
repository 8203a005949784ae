/** What bounds a namespace is looked at right before anything is scheduled in it, whatever the watches say. */
import { expect, test } from 'vitest';
import * as kinds from '../kinds.ts';
import type { ApiClient } from '../runtime/client.ts';
import { eachFixture } from '../testing/fixture.ts';
import { manifest } from '../testing/manifest.ts';
import { deny } from '../testing/policies.ts';
import type { TestSpace } from '../testing/space.ts';
import type { TestEnvironment } from '../testing/test-environment.ts';

const { ASSISTANT, CAPSULE, DEPLOYMENT, NAMESPACE, NETWORK_POLICY, RESOURCE_QUOTA } = kinds;
const READY = 'True Ready';
let environment: TestEnvironment;
let space: TestSpace;
let home: string;
/** From now on the watch of these kinds brings nothing. */
const unseen = new Set<string>();

eachFixture(async (fixture) => {
  ({ environment, space, home } = fixture);
  unseen.clear();
  await space.start({ client: shortSighted(environment.server.client) });
});

function shortSighted(client: ApiClient): ApiClient {
  return {
    call: (request) => client.call(request),
    async lines(request) {
      const lines = await client.lines(request);
      const kind = request.path.split('/').at(-1) ?? '';
      return (async function* () {
        for await (const line of lines) if (!unseen.has(kind)) yield line;
      })();
    },
  };
}

test.each<[string, string, (namespace: string) => Promise<void>]>([
  [
    'networkpolicies',
    'space-default-deny',
    (namespace) => space.delete(NETWORK_POLICY, 'space-default-deny', namespace),
  ],
  [
    'networkpolicies',
    'space-assistants',
    (namespace) => space.patch(NETWORK_POLICY, 'space-assistants', { spec: { ingress: [{}] } }, namespace),
  ],
  [
    'resourcequotas',
    'space-quota',
    (namespace) => space.patch(RESOURCE_QUOTA, 'space-quota', { spec: { hard: { pods: '9' } } }, namespace),
  ],
  [
    'namespaces',
    '',
    (namespace) =>
      space.patch(NAMESPACE, namespace, {
        metadata: { labels: { 'pod-security.kubernetes.io/enforce': 'privileged' } },
      }),
  ],
])(
  'of %s, %s is restored before anything is scheduled, even without a watch event',
  async (kind, name, breach) => {
    const namespace = await space.settled();
    await space.becomes(CAPSULE, home, 'Ready', READY);
    unseen.add(kind);
    const before = space.run.acts.length;
    await breach(namespace);
    await space.assistant('second', { capsule: home, manifest: manifest('second') });
    await space.becomes(ASSISTANT, 'second', 'Ready', READY);
    const since = space.run.acts.slice(before);
    const restored = since.findIndex((act) => act.endsWith(`/${kind}/${name || namespace}`));
    const scheduled = since.findIndex((act) => act.endsWith('/deployments/second'));
    expect(restored).toBeGreaterThanOrEqual(0);
    expect(scheduled).toBeGreaterThan(restored);
  },
);

test('a policy that cannot be restored prevents scheduling, and the condition says so', async () => {
  const namespace = await space.settled();
  unseen.add('networkpolicies');
  await space.delete(NETWORK_POLICY, 'space-default-deny', namespace);
  const lift = await deny(environment.server.client, space.names.namespace, {
    group: 'networking.k8s.io',
    resource: 'networkpolicies',
    operations: ['CREATE'],
    where: `request.namespace == "${namespace}"`,
    message: '"no network policies here"',
  });
  await space.assistant('second', { capsule: home, manifest: manifest('second') });
  await space.becomes(CAPSULE, home, 'NetworkReady', 'False WriteRefused');
  await space.becomes(ASSISTANT, 'second', 'Ready', 'False CapsuleNotReady');
  expect(await space.message(ASSISTANT, 'second', 'Ready')).toContain('no network policies here');
  expect(await space.get(DEPLOYMENT, 'second', namespace)).toBeUndefined();
  await lift();
  await space.becomes(ASSISTANT, 'second', 'Ready', READY);
});

test('without changes the policies are not read', async () => {
  await space.settled();
  await space.stop();
  const asked: string[] = [];
  const client = shortSighted(environment.server.client);
  await space.start({
    client: {
      ...client,
      call(request) {
        asked.push(`${request.method} ${request.path}`);
        return client.call(request);
      },
    },
  });
  await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
  await space.patch(ASSISTANT, 'ledger', { metadata: { annotations: { note: 'of no meaning' } } });
  await space.removed(ASSISTANT, 'ledger');
  expect(asked.filter((call) => call.includes('networkpolicies/'))).toEqual([]);
});
