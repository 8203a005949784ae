import { describe, expect, test } from 'vitest';
import { eventually } from '../testing/eventually.ts';
import { openTcpProxy } from '../testing/tcp-proxy.ts';
import * as kinds from './kinds.ts';
import { principalSecretName } from './names.ts';
import { APPLY } from './runtime/client.ts';
import { systemClock } from './runtime/clock.ts';
import { type KubeObject, pathOf, type Resource } from './runtime/kube-object.ts';
import { Reflector } from './runtime/reflector.ts';
import { Store } from './runtime/store.ts';
import { eachFixture } from './testing/fixture.ts';
import { manifest } from './testing/manifest.ts';
import type { TestSpace } from './testing/space.ts';
import type { TestEnvironment } from './testing/test-environment.ts';

const { ASSISTANT, CAPSULE, CONFIG_MAP, DEPLOYMENT, NAMESPACE, NETWORK_POLICY, POD, SECRET, SERVICE } = kinds;
const READY = 'True Ready';
let environment: TestEnvironment;
let space: TestSpace;
let home: string;
let before: string[];

eachFixture(async (fixture) => {
  ({ environment, space, home, before } = fixture);
  await space.start();
});

/** What guards a Capsule and its Assistant, as the API server has it. */
async function guards(namespace: string) {
  const policies = await space.list<kinds.NetworkPolicy>(NETWORK_POLICY, namespace);
  const quota = await space.get<kinds.ResourceQuota>(kinds.RESOURCE_QUOTA, 'space-quota', namespace);
  const { metadata } = (await space.get<kinds.Namespace>(NAMESPACE, namespace)) ?? {};
  const deployment = await space.get<kinds.Deployment>(DEPLOYMENT, 'ledger', namespace);
  return {
    policies: policies.map(({ metadata: { name }, spec }) => [name, spec]),
    pods: quota?.spec?.hard?.['pods'],
    enforce: metadata?.labels?.['pod-security.kubernetes.io/enforce'],
    containers: deployment?.spec?.template.spec?.containers.map(({ name }) => name),
  };
}

describe('at rest', () => {
  test('a restarted operator writes nothing and calls no broker', async () => {
    await space.settled();
    await space.rests();
    await space.restartedAndLooked();
    expect(space.run.acts).toEqual([]);
    await space.removed(CAPSULE, home);
  });

  test('a protected object that somebody changed is restored, and an Event says so', async () => {
    const namespace = await space.settled();
    const made = await guards(namespace);
    expect(made).toMatchObject({ pods: '100', enforce: 'restricted', containers: ['assistant'] });
    await space.delete(NETWORK_POLICY, 'space-default-deny', namespace);
    await space.patch(
      NETWORK_POLICY,
      'space-assistants',
      { spec: { egress: null, ingress: [{}] } },
      namespace,
    );
    await space.patch(NAMESPACE, namespace, {
      metadata: { labels: { 'pod-security.kubernetes.io/enforce': 'privileged' } },
    });
    await space.patch(kinds.RESOURCE_QUOTA, 'space-quota', { spec: { hard: { pods: '9999' } } }, namespace);
    await space.patch(
      DEPLOYMENT,
      'ledger',
      [{ op: 'add', path: '/spec/template/spec/containers/-', value: { name: 'extra', image: 'x' } }],
      namespace,
    );
    const restored = async () => {
      expect(await guards(namespace)).toEqual(made);
      return true;
    };
    const changed = performance.now();
    await eventually(restored, { what: 'all is put back' });
    console.info(`five changes were put back ${Math.round(performance.now() - changed)} ms after the last`);
    const reasons = async () => (await space.events(home)).map(({ reason }) => reason);
    await eventually(async () => (await reasons()).includes('GuardrailRestored'), { what: 'the Event' });
    await space.removed(CAPSULE, home);
  });
});

describe('a value that somebody wrote into a field that the operator does not set', () => {
  type Owned = KubeObject & { readonly spec?: unknown };
  const read = (resource: Resource) => space.get<Owned>(resource, 'ledger', space.namespaceOf(home));
  const COMMAND = '/spec/template/spec/containers/0/command';
  const template = (spec: object) => ({ spec: { template: { spec } } });

  test.each([
    ['a pause of the rollout', DEPLOYMENT, { spec: { paused: true } }],
    ['a node that there is none of', DEPLOYMENT, template({ nodeSelector: { nowhere: 'yes' } })],
    ['a command for its container', DEPLOYMENT, [{ op: 'add', path: COMMAND, value: ['/other'] }]],
    ['a pod that the Service does not find', SERVICE, { spec: { selector: { nobody: 'yes' } } }],
  ])('is removed: %s', async (_, resource, patch) => {
    const namespace = await space.settled();
    const made = await read(resource);
    await space.patch(resource, 'ledger', patch, namespace);
    const restored = async () => {
      expect((await read(resource))?.spec).toEqual(made?.spec);
      return true;
    };
    await eventually(restored, { what: 'it is as it was' });
    await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
    await space.rests();
    await space.restartedAndLooked();
    expect(space.run.acts).toEqual([]);
  });

  test('stays if it equals the default, and is not written again and again', async () => {
    const namespace = await space.settled();
    const { apiVersion, kind, metadata, spec } = (await read(DEPLOYMENT)) ?? { metadata: { name: '' } };
    const { name, uid } = metadata;
    await environment.server.client.call({
      method: 'PATCH',
      path: pathOf(DEPLOYMENT, namespace, name),
      query: { fieldManager: 'backup', force: 'true' },
      contentType: APPLY,
      body: { apiVersion, kind, metadata: { name, uid }, spec },
    });
    const owners = async () => JSON.stringify((await read(DEPLOYMENT))?.metadata);
    await eventually(async () => !(await owners()).includes('"backup"'), {
      what: 'it owns nothing any more',
    });
    expect((await read(DEPLOYMENT))?.metadata.generation).toBe(metadata.generation);
    const { resourceVersion } = (await read(DEPLOYMENT))?.metadata ?? {};
    await space.patch(ASSISTANT, 'ledger', { metadata: { annotations: { touched: 'yes' } } });
    await space.stop();
    await space.start();
    await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
    expect((await read(DEPLOYMENT))?.metadata.resourceVersion).toBe(resourceVersion);
  });

  test('stays if it only restarts the pods, as kubectl rollout restart does', async () => {
    const namespace = await space.settled();
    const annotations = { 'kubectl.kubernetes.io/restartedAt': '2026-01-01T00:00:00Z' };
    await space.patch(DEPLOYMENT, 'ledger', { spec: { template: { metadata: { annotations } } } }, namespace);
    await space.patch(ASSISTANT, 'ledger', { spec: { replicas: 2 } });
    const scaled = async () =>
      (await space.get<kinds.Deployment>(DEPLOYMENT, 'ledger', namespace))?.spec?.replicas === 2;
    await eventually(scaled, { what: 'the operator has written the Deployment' });
    const deployment = await space.get<kinds.Deployment>(DEPLOYMENT, 'ledger', namespace);
    expect(deployment?.spec?.template.metadata?.annotations).toMatchObject(annotations);
  });
});

describe('an API server', () => {
  test('that crashes is watched again from the same version, and no event is missed', async () => {
    await space.settled();
    await environment.server.kill();
    await eventually(() => space.logs.some((line) => line.includes('watch failed')), {
      what: 'the loss is noticed',
    });
    await environment.server.restart();
    await space.assistant('second', { capsule: home, manifest: manifest('second') });
    await space.becomes(ASSISTANT, 'second', 'Ready', READY);
    await space.becomes(CAPSULE, home, 'Ready', READY);
    await space.removed(CAPSULE, home);
    expect(await environment.databases()).toEqual(before);
  });

  test('behind a connection that breaks and stalls at random is watched without a missed event, and without a hot loop', async () => {
    const line = await openTcpProxy({ port: Number(new URL(environment.server.url).port) });
    const store = new Store<kinds.ConfigMap>();
    const { namespace } = space.names;
    const reflector = new Reflector<kinds.ConfigMap>({
      client: environment.server.clientAt(line.port),
      clock: systemClock,
      resource: CONFIG_MAP,
      store,
      namespace,
      inactivityMs: 500,
    });
    const ending = new AbortController();
    const began = performance.now();
    const running = reflector.run(ending.signal);
    const { client } = environment.server;
    const path = `/api/v1/namespaces/${namespace}/configmaps`;
    for (let i = 0; i < 120; i++) {
      const name = `c${i % 12}`;
      const live = (await space.list<kinds.ConfigMap>(CONFIG_MAP)).some(
        ({ metadata }) => metadata.name === name,
      );
      if (!live)
        await client.call({ method: 'POST', path, body: { metadata: { name }, data: { i: `${i}` } } });
      else if (i % 3 === 0) await space.delete(CONFIG_MAP, name);
      else await space.patch(CONFIG_MAP, name, { data: { i: `${i}` } });
      if (i % 5 === 0) line.cut();
      if (i % 20 === 7) line.hold(true);
      if (i % 20 === 10) line.hold(false);
    }
    const said = (maps: readonly kinds.ConfigMap[]) =>
      maps.map(({ metadata, data }) => `${metadata.name} ${data?.['i']}`).sort();
    const agree = async () => {
      expect(said(store.list())).toEqual(said(await space.list<kinds.ConfigMap>(CONFIG_MAP)));
      return true;
    };
    await eventually(agree, { what: 'the store says what the server says' });
    // Waits double from a tenth of a second, while a loop without waits would make thousands of connections.
    expect(line.connections).toBeLessThan(200 + (performance.now() - began) / 100);
    ending.abort();
    await running;
    await line.close();
  });

  test('from which an administrator deleted a namespace gets it back with all its objects', async () => {
    const namespace = await space.settled();
    const url = await space.urlOf('ledger');
    await space.delete(NAMESPACE, namespace);
    await space.becomes(CAPSULE, home, 'Ready', READY);
    await eventually(async () => (await space.list(POD, namespace)).length === 1, {
      what: 'its pod runs again',
    });
    await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
    expect(await space.urlOf('ledger')).toBe(url);
    await space.removed(CAPSULE, home);
    expect(await environment.databases()).toEqual(before);
  });
});

describe('the gate', () => {
  test('without its RuntimeClass nothing new is scheduled, guardrails are kept, and all resumes by itself', async () => {
    const { names } = space;
    const namespace = await space.settled();
    await space.delete(kinds.RUNTIME_CLASS, names.runtimeClass);
    await space.assistant('second', { capsule: home, manifest: manifest('second') });
    await space.becomes(ASSISTANT, 'second', 'Ready', 'False RuntimeClassNotFound');
    expect(await space.message(ASSISTANT, 'second', 'SandboxReady')).toContain(
      'Create it with handler "runsc"',
    );
    expect(await space.get(DEPLOYMENT, 'second', namespace)).toBeUndefined();
    await space.becomes(CAPSULE, home, 'Ready', 'False RuntimeClassNotFound');
    // What runs, runs in the sandbox.
    await space.becomes(ASSISTANT, 'ledger', 'WorkloadReady', READY);
    await space.delete(NETWORK_POLICY, 'space-default-deny', namespace);
    await eventually(() => space.get(NETWORK_POLICY, 'space-default-deny', namespace), {
      what: 'the policy is back',
    });

    await runtimeClass('runc');
    await space.becomes(ASSISTANT, 'second', 'SandboxReady', 'False HandlerMismatch');
    expect(await space.get(DEPLOYMENT, 'second', namespace)).toBeUndefined();
    await space.delete(kinds.RUNTIME_CLASS, names.runtimeClass);
    await runtimeClass('runsc');
    await space.becomes(ASSISTANT, 'second', 'Ready', READY);
    await space.removed(CAPSULE, home);
  });

  test('does not delay deletion and suspension', async () => {
    await space.settled();
    await space.delete(kinds.RUNTIME_CLASS, space.names.runtimeClass);
    await space.becomes(ASSISTANT, 'ledger', 'Ready', 'False RuntimeClassNotFound');
    await space.patch(ASSISTANT, 'ledger', { spec: { suspend: true } });
    const namespace = space.namespaceOf(home);
    await eventually(async () => (await space.list(POD, namespace)).length === 0, { what: 'no pod is left' });
    await space.removed(CAPSULE, home);
    expect(await environment.databases()).toEqual(before);
    await runtimeClass('runsc');
  });

  async function runtimeClass(handler: string) {
    await environment.server.client.call({
      method: 'POST',
      path: '/apis/node.k8s.io/v1/runtimeclasses',
      body: { metadata: { name: space.names.runtimeClass }, handler },
    });
  }
});

describe('a broker', () => {
  test('that is unavailable delays creation and deletion, and no step is skipped', async () => {
    await space.stop();
    await space.start({ brokerUrl: 'http://127.0.0.1:9' });
    await space.capsule(home);
    await space.becomes(CAPSULE, home, 'Ready', 'False BrokerUnreachable');
    await space.stop();
    await space.start();
    await space.assistant('ledger', { capsule: home });
    await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
    await space.stop();
    await space.start({ brokerUrl: 'http://127.0.0.1:9' });
    await space.delete(CAPSULE, home);
    await space.becomes(ASSISTANT, 'ledger', 'Finalized', 'False BrokerUnreachable');
    await space.becomes(CAPSULE, home, 'Ready', 'False AssistantsRemain');
    await space.stop();
    await space.start();
    await space.goes(CAPSULE, home);
    expect(await environment.databases()).toEqual(before);
  });
});

test('no secret is in a log, an Event or a status', async () => {
  await space.settled();
  const principal = await space.get<kinds.SecretObject>(SECRET, principalSecretName(home));
  const url = new URL(await space.urlOf('ledger'));
  const secrets = [url.password, Buffer.from(principal?.data?.['principal'] ?? '', 'base64').toString()];
  await space.removed(CAPSULE, home);
  const told = JSON.stringify([
    space.logs,
    await space.list(ASSISTANT),
    await environment.server.client.call({ method: 'GET', path: '/apis/events.k8s.io/v1/events' }),
  ]);
  for (const secret of secrets) {
    expect(secret.length).toBeGreaterThan(20);
    expect(told).not.toContain(secret);
  }
});
