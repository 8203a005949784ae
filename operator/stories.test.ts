import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import * as kinds from './kinds.ts';
import { ANNOTATION, LABEL, principalSecretName } from './names.ts';
import { eventually } from './testing/eventually.ts';
import { manifest } from './testing/manifest.ts';
import { IMAGE, type TestSpace } from './testing/space.ts';
import { openTheatre, type Theatre } from './testing/stage.ts';

const { ASSISTANT, CAPSULE, CONFIG_MAP, DEPLOYMENT, NAMESPACE, NETWORK_POLICY, POD, SECRET } = kinds;
const READY = 'True Ready';
let theatre: Theatre;
let space: TestSpace;
let before: string[];
/** The broker knows no Space of these tests apart: each test has a Capsule of another name. */
let home: string;
let homes = 0;

beforeAll(async () => {
  theatre = await openTheatre();
});
afterAll(() => theatre?.close());
beforeEach(async () => {
  before = await theatre.databases();
  homes += 1;
  home = `home-${homes}`;
  space = await theatre.space();
  await space.start();
});
afterEach(() => space.close());

/** A Capsule with one Assistant of the same name in it, both ready. */
async function settled(capsule: string, id = 'ledger') {
  await space.capsule(capsule);
  await space.assistant(id, { capsule });
  await space.becomes(ASSISTANT, id, 'Ready', READY);
  await eventually(
    async () => (await space.get<kinds.Capsule>(CAPSULE, capsule))?.status?.assistants?.ready === 1,
    { what: 'the Capsule has counted its Assistant' },
  );
  return space.namespaceOf(capsule);
}

async function removed(resource: typeof CAPSULE, name: string) {
  await space.delete(resource, name);
  await space.goes(resource, name);
}

const urlOf = async (namespace: string, id: string) => {
  const secret = await space.get<kinds.SecretObject>(SECRET, `${id}-database`, namespace);
  return Buffer.from(secret?.data?.['DATABASE_URL'] ?? '', 'base64').toString();
};

describe('a life', () => {
  test('a Capsule and its Assistant become ready, and leave nothing behind', async () => {
    const namespace = await settled(home);
    expect(await urlOf(namespace, 'ledger')).toMatch(/^postgresql:/);
    await removed(ASSISTANT, 'ledger');
    expect(await space.list(SECRET, namespace)).toEqual([]);
    expect(await space.list(POD, namespace)).toEqual([]);
    await removed(CAPSULE, home);
    expect(await space.get(NAMESPACE, namespace)).toBeUndefined();
    expect(await space.list(SECRET)).toEqual([]);
    expect(await theatre.databases()).toEqual(before);
  });

  test('deleting a Capsule deletes its Assistants first, and takes no new ones', async () => {
    await settled(home);
    await removed(CAPSULE, home);
    expect(await space.list(ASSISTANT)).toEqual([]);
    expect(await theatre.databases()).toEqual(before);
    await space.assistant('late', { capsule: home });
    await space.becomes(ASSISTANT, 'late', 'Ready', 'False CapsuleNotFound');
    await removed(ASSISTANT, 'late');
  });

  test('Retain keeps databases and principal, and a Capsule of that name takes them up', async () => {
    const namespace = await settled(home);
    const url = await urlOf(namespace, 'ledger');
    await space.patch(CAPSULE, home, { spec: { deletionPolicy: 'Retain' } });
    await removed(CAPSULE, home);
    expect(await space.get(NAMESPACE, namespace)).toBeUndefined();
    const kept = await space.get<kinds.SecretObject>(SECRET, principalSecretName(home));
    expect(kept?.metadata.labels?.[LABEL.retained]).toBe('true');
    expect(await theatre.databases()).not.toEqual(before);

    await settled(home);
    expect(await urlOf(namespace, 'ledger')).toBe(url);
    const taken = await space.get<kinds.SecretObject>(SECRET, principalSecretName(home));
    expect(taken?.data?.['principal']).toBe(kept?.data?.['principal']);
    expect(taken?.metadata.labels?.[LABEL.retained]).toBeUndefined();
    await removed(CAPSULE, home);
    expect(await theatre.databases()).toEqual(before);
  });

  test('what is suspended from birth is accepted and isolated, and costs no database', async () => {
    await space.capsule(home, { suspend: true });
    await space.assistant('ledger', { capsule: home, suspend: true });
    await space.becomes(ASSISTANT, 'ledger', 'WorkloadReady', 'False Suspended');
    await space.becomes(ASSISTANT, 'ledger', 'Accepted', READY);
    await space.becomes(CAPSULE, home, 'NetworkReady', READY);
    expect(await theatre.databases()).toEqual(before);
    await space.patch(CAPSULE, home, { spec: { suspend: false } });
    await space.patch(ASSISTANT, 'ledger', { spec: { suspend: false } });
    await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
    const namespace = space.namespaceOf(home);
    const url = await urlOf(namespace, 'ledger');

    await space.patch(CAPSULE, home, { spec: { suspend: true } });
    await space.becomes(ASSISTANT, 'ledger', 'Ready', 'False Suspended');
    await eventually(async () => (await space.list(POD, namespace)).length === 0, { what: 'no pod is left' });
    await space.patch(CAPSULE, home, { spec: { suspend: false } });
    await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
    expect(await urlOf(namespace, 'ledger')).toBe(url);
    await removed(CAPSULE, home);
  });

  test('a new version rolls the pods and takes the old documents away', async () => {
    const namespace = await settled(home);
    const [old] = await space.list(POD, namespace);
    const next = manifest('ledger');
    await space.patch(ASSISTANT, 'ledger', {
      spec: {
        manifest: { ...next, platform: { ...next.platform, version: '1.1.0', genesis: 'Be better.' } },
      },
    });
    await eventually(
      async () => {
        const pods = await space.list(POD, namespace);
        return pods.length === 1 && pods[0]?.metadata.name !== old?.metadata.name;
      },
      { what: 'the pod is another' },
    );
    await eventually(async () => (await space.list(CONFIG_MAP, namespace)).length === 2, {
      what: 'two documents are left',
    });
    const status = (await space.get<kinds.Assistant>(ASSISTANT, 'ledger'))?.status;
    expect(status?.manifest?.version).toBe('1.1.0');
    await removed(CAPSULE, home);
  });
});

describe('at rest', () => {
  test('a restarted operator writes nothing and calls no broker', async () => {
    await settled(home);
    await space.stop();
    await space.start();
    await eventually(() => space.logs.filter((line) => line.includes('"reconciled"')).length > 4, {
      what: 'everything was looked at again',
    });
    expect(space.life.acts).toEqual([]);
    await removed(CAPSULE, home);
  });

  test('an object that nobody may change is put back, and an Event says so', async () => {
    const namespace = await settled(home);
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
      const policies = await space.list<kinds.NetworkPolicy>(NETWORK_POLICY, namespace);
      const quota = await space.get<kinds.ResourceQuota>(kinds.RESOURCE_QUOTA, 'space-quota', namespace);
      const { metadata } = (await space.get<kinds.Namespace>(NAMESPACE, namespace)) ?? {};
      const deployment = await space.get<kinds.Deployment>(DEPLOYMENT, 'ledger', namespace);
      const seen = {
        policies: policies.map(({ spec }) => [spec?.ingress?.length ?? 0, spec?.egress?.length ?? 0]),
        pods: quota?.spec?.hard?.['pods'],
        enforce: metadata?.labels?.['pod-security.kubernetes.io/enforce'],
        containers: deployment?.spec?.template.spec?.containers.map(({ name }) => name),
      };
      expect(seen).toEqual({
        policies: [
          [1, 1],
          [0, 0],
        ],
        pods: '100',
        enforce: 'restricted',
        containers: ['assistant'],
      });
      return true;
    };
    await eventually(restored, { what: 'all is put back' });
    const reasons = async () =>
      (
        await space.list<{ reason: string } & kinds.Capsule>({
          ...kinds.NAMESPACE,
          group: 'events.k8s.io',
          plural: 'events',
          kind: 'Event',
          namespaced: true,
        })
      ).map(({ reason }) => reason);
    await eventually(async () => (await reasons()).includes('GuardrailRestored'), { what: 'the Event' });
    await removed(CAPSULE, home);
  });
});

describe('an API server', () => {
  test('that crashes is followed again from where it was, and misses nothing', async () => {
    await settled(home);
    await theatre.server.kill();
    await eventually(() => space.logs.some((line) => line.includes('watch failed')), {
      what: 'the loss is noticed',
    });
    await theatre.server.restart();
    await space.assistant('second', { capsule: home, manifest: manifest('second') });
    await space.becomes(ASSISTANT, 'second', 'Ready', READY);
    await space.becomes(CAPSULE, home, 'Ready', READY);
    await removed(CAPSULE, home);
    expect(await theatre.databases()).toEqual(before);
  });

  test('from which an administrator took a namespace gets it back with all that was in it', async () => {
    const namespace = await settled(home);
    const url = await urlOf(namespace, 'ledger');
    await space.delete(NAMESPACE, namespace);
    await space.becomes(CAPSULE, home, 'Ready', READY);
    await eventually(async () => (await space.list(POD, namespace)).length === 1, {
      what: 'its pod runs again',
    });
    await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
    expect(await urlOf(namespace, 'ledger')).toBe(url);
    await removed(CAPSULE, home);
    expect(await theatre.databases()).toEqual(before);
  });
});

describe('the gate', () => {
  test('without its RuntimeClass nothing new is scheduled, guardrails are kept, and all resumes by itself', async () => {
    const { names } = space;
    const namespace = await settled(home);
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
    await removed(CAPSULE, home);
  });

  test('deletion and suspension do not wait for it', async () => {
    await settled(home);
    await space.delete(kinds.RUNTIME_CLASS, space.names.runtimeClass);
    await space.becomes(ASSISTANT, 'ledger', 'Ready', 'False RuntimeClassNotFound');
    await space.patch(ASSISTANT, 'ledger', { spec: { suspend: true } });
    const namespace = space.namespaceOf(home);
    await eventually(async () => (await space.list(POD, namespace)).length === 0, { what: 'no pod is left' });
    await removed(CAPSULE, home);
    expect(await theatre.databases()).toEqual(before);
    await runtimeClass('runsc');
  });

  async function runtimeClass(handler: string) {
    await theatre.server.client.call({
      method: 'POST',
      path: '/apis/node.k8s.io/v1/runtimeclasses',
      body: { metadata: { name: space.names.runtimeClass }, handler },
    });
  }
});

describe('two of one id', () => {
  test('the older owns it; the end of the younger leaves its database alone', async () => {
    const namespace = await settled(home);
    const url = await urlOf(namespace, 'ledger');
    await space.assistant('copy', { capsule: home, manifest: manifest('ledger') });
    await space.becomes(ASSISTANT, 'copy', 'Ready', 'False DuplicateIdentifier');
    expect(await space.message(ASSISTANT, 'copy', 'Accepted')).toContain('belongs to Assistant "ledger"');
    await removed(ASSISTANT, 'copy');
    expect(await urlOf(namespace, 'ledger')).toBe(url);
    await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
    expect((await space.list(POD, namespace)).length).toBe(1);
    await removed(CAPSULE, home);
  });

  test('the end of the older hands the id on, with a database of its own', async () => {
    const namespace = await settled(home);
    const url = await urlOf(namespace, 'ledger');
    await space.assistant('copy', { capsule: home, manifest: manifest('ledger') });
    await space.becomes(ASSISTANT, 'copy', 'Ready', 'False DuplicateIdentifier');
    await removed(ASSISTANT, 'ledger');
    await space.becomes(ASSISTANT, 'copy', 'Ready', READY);
    expect(await urlOf(namespace, 'ledger')).not.toBe(url);
    await removed(CAPSULE, home);
    expect(await theatre.databases()).toEqual(before);
  });
});

describe('what is refused', () => {
  test('a name that is no id', async () => {
    await space.capsule('postgres');
    await space.becomes(CAPSULE, 'postgres', 'Ready', 'False InvalidName');
    await space.capsule('a.b');
    await space.becomes(CAPSULE, 'a.b', 'NamespaceReady', 'False InvalidName');
    await removed(CAPSULE, 'postgres');
    await removed(CAPSULE, 'a.b');
  });

  test('a namespace that is not ours is never taken over', async () => {
    const name = space.namespaceOf(home);
    const { client } = theatre.server;
    await client.call({ method: 'POST', path: '/api/v1/namespaces', body: { metadata: { name } } });
    await space.capsule(home);
    await space.becomes(CAPSULE, home, 'Ready', 'False NamespaceConflict');
    const found = await space.get<kinds.Namespace>(NAMESPACE, name);
    expect(found?.metadata.annotations?.[ANNOTATION.owner]).toBeUndefined();
    await removed(CAPSULE, home);
    expect((await space.get<kinds.Namespace>(NAMESPACE, name))?.metadata.deletionTimestamp).toBeUndefined();
  });

  test('an Assistant that needs what is not there is not scheduled, and its condition says what', async () => {
    await space.capsule(home, { quota: { assistants: 6 }, integrations: { mail: { scopes: ['read'] } } });
    await space.assistant('hosts', {
      capsule: home,
      manifest: manifest('hosts', { network: { allowed_hosts: ['api.test'] } }),
    });
    await space.becomes(ASSISTANT, 'hosts', 'EgressReady', 'False NoGateway');
    await space.becomes(ASSISTANT, 'hosts', 'Ready', 'False NoGateway');
    await space.assistant('scopes', {
      capsule: home,
      manifest: manifest('scopes', { integrations: { mail: { scopes: ['read', 'send'] } } }),
    });
    await space.becomes(ASSISTANT, 'scopes', 'Ready', 'False ScopesNotGranted');
    expect(await space.message(ASSISTANT, 'scopes', 'IntegrationsGranted')).toContain('mail (send)');
    await space.patch(CAPSULE, home, { spec: { integrations: { mail: { scopes: ['read', 'send'] } } } });
    await space.becomes(ASSISTANT, 'scopes', 'Ready', READY);
    await space.assistant('lost', { capsule: 'nowhere' });
    await space.becomes(ASSISTANT, 'lost', 'Ready', 'False CapsuleNotFound');
    await removed(ASSISTANT, 'lost');
    const pods = await space.list(POD, space.namespaceOf(home));
    expect(pods.length).toBe(1);
    await removed(CAPSULE, home);
    expect(await theatre.databases()).toEqual(before);
  });

  test('more Assistants than the Capsule takes: the younger wait for a place', async () => {
    await space.capsule(home, { quota: { assistants: 1 } });
    await space.assistant('first', { capsule: home });
    await space.becomes(ASSISTANT, 'first', 'Ready', READY);
    await space.assistant('second', { capsule: home });
    await space.becomes(ASSISTANT, 'second', 'Ready', 'False QuotaExceeded');
    await removed(ASSISTANT, 'first');
    await space.becomes(ASSISTANT, 'second', 'Ready', READY);
    await removed(CAPSULE, home);
  });

  test('an image that cannot be pulled, and one that crashes; the next image mends it', async () => {
    space.fates.set('registry.test/nothing:1', 'pull-fails');
    space.fates.set('registry.test/broken:1', 'crashes');
    await space.capsule(home);
    await space.assistant('ledger', { capsule: home, image: 'registry.test/nothing:1' });
    await space.becomes(ASSISTANT, 'ledger', 'Ready', 'False ImagePullFailed');
    expect(await space.message(ASSISTANT, 'ledger', 'WorkloadReady')).toContain('"registry.test/nothing:1"');
    await space.patch(ASSISTANT, 'ledger', { spec: { image: 'registry.test/broken:1' } });
    await space.becomes(ASSISTANT, 'ledger', 'Ready', 'False CrashLooping');
    await space.patch(ASSISTANT, 'ledger', { spec: { image: IMAGE } });
    await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
    await removed(CAPSULE, home);
  });
});

describe('a broker', () => {
  test('that is away delays a life and a death, and skips nothing', async () => {
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
    expect(await theatre.databases()).toEqual(before);
  });

  test('that forgot nothing refuses another principal, and the condition says what to do', async () => {
    await settled(home);
    const name = principalSecretName(home);
    const kept = await space.get<kinds.SecretObject>(SECRET, name);
    await space.stop();
    await space.delete(SECRET, name);
    await space.start();
    await space.becomes(CAPSULE, home, 'DatabaseReady', 'False PrincipalLost');
    await space.patch(SECRET, name, { data: { principal: kept?.data?.['principal'] } });
    await space.becomes(CAPSULE, home, 'Ready', READY);
    await removed(CAPSULE, home);
    expect(await theatre.databases()).toEqual(before);
  });
});

test('no secret is in a log, an Event or a status', async () => {
  const namespace = await settled(home);
  const principal = await space.get<kinds.SecretObject>(SECRET, principalSecretName(home));
  const url = new URL(await urlOf(namespace, 'ledger'));
  const secrets = [url.password, Buffer.from(principal?.data?.['principal'] ?? '', 'base64').toString()];
  await removed(CAPSULE, home);
  const told = JSON.stringify([
    space.logs,
    await space.list(ASSISTANT),
    await theatre.server.client.call({ method: 'GET', path: '/apis/events.k8s.io/v1/events' }),
  ]);
  for (const secret of secrets) {
    expect(secret.length).toBeGreaterThan(20);
    expect(told).not.toContain(secret);
  }
});
