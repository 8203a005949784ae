import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { eventually } from '../testing/eventually.ts';
import * as kinds from './kinds.ts';
import { LABEL, principalSecretName } from './names.ts';
import { pathOf } from './runtime/kube-object.ts';
import { underAnySchema } from './testing/definitions.ts';
import { type FaultProxy, openFaultProxy } from './testing/fault-proxy.ts';
import { eachFixture } from './testing/fixture.ts';
import { manifest } from './testing/manifest.ts';
import { IMAGE, type TestSpace } from './testing/space.ts';
import type { TestEnvironment } from './testing/test-environment.ts';

const { ASSISTANT, CAPSULE, DEPLOYMENT, NAMESPACE, POD, SECRET } = kinds;
const READY = 'True Ready';
let environment: TestEnvironment;
let space: TestSpace;
let home: string;
let before: string[];

eachFixture((fixture) => {
  ({ environment, space, home, before } = fixture);
});

describe('a broker', () => {
  let proxy: FaultProxy;
  beforeEach(async () => {
    proxy = await openFaultProxy(environment.database.broker);
    await space.start({ brokerUrl: `http://127.0.0.1:${proxy.port}` });
    return () => proxy.close();
  });
  const post = (path: string, body: string, status = 200) =>
    proxy.fault(({ method, url }) =>
      method === 'POST' && url === path ? { kind: 'answer', status, body } : undefined,
    );

  test.each([
    ['answers what is no JSON', '<html>Bad Gateway</html>', 200, 'BrokerUnreachable'],
    ['answers another form', '{"database_url":7}', 200, 'BrokerUnreachable'],
    ['answers nothing', '', 200, 'BrokerUnreachable'],
    ['says 403 to a valid principal', '{"error":{"code":"forbidden"},"trace_id":"0"}', 403, 'BrokerRefused'],
    ['fails', '{"error":{"code":"internal"},"trace_id":"0"}', 500, 'BrokerUnreachable'],
  ])(
    'that %s is named in the condition, and nothing is lost once it works again',
    async (_, body, status, reason) => {
      await space.capsule(home);
      await space.becomes(CAPSULE, home, 'Ready', READY);
      post('/v1/capsules/apps/create', body, status);
      await space.assistant('ledger', { capsule: home });
      await space.becomes(ASSISTANT, 'ledger', 'DatabaseReady', `False ${reason}`);
      expect(await space.get(DEPLOYMENT, 'ledger', space.namespaceOf(home))).toBeUndefined();
      expect(JSON.stringify([space.logs, await space.list(ASSISTANT)])).not.toContain('Bad Gateway');
      proxy.fault(() => undefined);
      await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
      expect((await environment.databases()).length - before.length).toBe(4);

      post('/v1/capsules/drop', body, status);
      await space.delete(CAPSULE, home);
      if (status !== 403) {
        await space.becomes(CAPSULE, home, 'Finalized', `False ${reason}`);
        proxy.fault(() => undefined);
        await space.goes(CAPSULE, home);
      } else {
        // A retired principal is refused like this, so `finalize` is asked; it says that nothing was dropped.
        await space.becomes(CAPSULE, home, 'Finalized', 'False PrincipalLost');
        expect(await space.message(CAPSULE, home, 'Finalized')).toContain(`replace-principal ${home}`);
        proxy.fault(() => undefined);
        await space.goes(CAPSULE, home);
      }
      expect(await environment.databases()).toEqual(before);
    },
  );

  test('that hangs delays only the reconcile that called it', async () => {
    await space.settled();
    proxy.fault(({ method }) => (method === 'POST' ? { kind: 'stall' } : undefined));
    await space.assistant('second', { capsule: home, manifest: manifest('second') });
    await eventually(() => proxy.asked.some(({ url }) => url === '/v1/capsules/apps/create'), {
      what: 'the broker is asked',
    });
    await space.patch(ASSISTANT, 'ledger', { spec: { replicas: 2 } });
    const scaled = async () =>
      (await space.get<kinds.Deployment>(DEPLOYMENT, 'ledger', space.namespaceOf(home)))?.spec?.replicas ===
      2;
    await eventually(scaled, { what: 'another Assistant is served' });
    await space.becomes(ASSISTANT, 'second', 'DatabaseReady', 'False BrokerUnreachable');
    proxy.fault(() => undefined);
    await space.becomes(ASSISTANT, 'second', 'Ready', READY);
    await space.removed(CAPSULE, home);
    expect(await environment.databases()).toEqual(before);
  });
});

describe('an object that an older schema stored', () => {
  const stored = (plural: string, path: string, body: object) => {
    const { client } = environment.server;
    return underAnySchema(client, plural, () => client.call({ method: 'POST', path, body }));
  };

  test('gets a condition that says so, disturbs no other object, and can be deleted', async () => {
    await space.start();
    await space.settled();
    const assistants = `/apis/platform.space/v1/namespaces/${space.names.namespace}/assistants`;
    const old = (name: string, spec: unknown) => ({
      apiVersion: 'platform.space/v1',
      kind: 'Assistant',
      metadata: { name },
      spec,
    });
    await stored('assistants', assistants, old('no-spec', undefined));
    await stored(
      'assistants',
      assistants,
      old('old', { capsule: home, image: IMAGE, manifest: { name: 'x' } }),
    );
    const strange = { capsule: home, image: IMAGE, manifest: manifest('strange'), env: 'A=B' };
    await stored('assistants', assistants, old('strange', strange));
    const env = [{ name: 'EGRESS_URL', value: 'http://mine' }];
    const greedy = { capsule: home, image: IMAGE, manifest: manifest('greedy'), env };
    await stored('assistants', assistants, old('greedy', greedy));
    await space.becomes(ASSISTANT, 'greedy', 'Accepted', 'False SpecInvalid');
    expect(await space.message(ASSISTANT, 'greedy', 'Accepted')).toContain('"EGRESS_URL"');
    await space.becomes(ASSISTANT, 'old', 'Accepted', 'False ManifestInvalid');
    await space.becomes(ASSISTANT, 'strange', 'Accepted', 'False SpecInvalid');
    await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
    expect(await space.get(DEPLOYMENT, 'strange', space.namespaceOf(home))).toBeUndefined();
    for (const name of ['no-spec', 'old', 'strange', 'greedy']) await space.removed(ASSISTANT, name);
    await space.removed(CAPSULE, home);
    expect(await environment.databases()).toEqual(before);
  });

  test('gets this condition also from a later operator, when the schema no longer accepts such an object', async () => {
    await space.start();
    await space.settled();
    await space.stop();
    const assistants = `/apis/platform.space/v1/namespaces/${space.names.namespace}/assistants`;
    await stored('assistants', assistants, {
      apiVersion: 'platform.space/v1',
      kind: 'Assistant',
      metadata: { name: 'strange' },
      spec: { capsule: home, image: IMAGE, manifest: manifest('strange'), env: 'A=B' },
    });
    await space.start();
    await space.becomes(ASSISTANT, 'strange', 'Accepted', 'False SpecInvalid');
    await space.becomes(ASSISTANT, 'strange', 'Stalled', 'True SpecInvalid');
    await space.patch(ASSISTANT, 'strange', { spec: { env: null } });
    await space.becomes(ASSISTANT, 'strange', 'Ready', READY);
    await space.becomes(ASSISTANT, 'strange', 'Stalled', 'none');
    await space.removed(ASSISTANT, 'strange');
    await space.removed(CAPSULE, home);
  });
});

describe('a condition that somebody else wrote', () => {
  test('is replaced with the next status, and running pods stay as they are', async () => {
    await space.start();
    await space.settled();
    const lastTransitionTime = '2026-01-01T00:00:00Z';
    const value = { type: 'Stalled', status: 'True', reason: 'Foreign', message: '', lastTransitionTime };
    await environment.server.client.call({
      method: 'PATCH',
      path: pathOf(ASSISTANT, space.names.namespace, 'ledger', 'status'),
      query: { fieldManager: 'somebody' },
      contentType: 'application/json-patch+json',
      body: [{ op: 'add', path: '/status/conditions/-', value }],
    });
    await space.becomes(ASSISTANT, 'ledger', 'Stalled', 'none');
    expect(await space.condition(ASSISTANT, 'ledger', 'Ready')).toBe(READY);
  });
});

describe('a finalizer that was removed by hand', () => {
  const finalizers = { metadata: { finalizers: null } };

  test('leaves the Capsule’s data unchanged, and another Capsule of its name takes nothing over', async () => {
    await space.start();
    const namespace = await space.settled();
    await space.stop();
    await space.delete(CAPSULE, home);
    await space.patch(CAPSULE, home, finalizers);
    await space.goes(CAPSULE, home);
    await space.start();
    await space.becomes(ASSISTANT, 'ledger', 'CapsuleReady', 'False CapsuleNotFound');
    const kept = await environment.databases();
    const principal = await space.get<kinds.SecretObject>(SECRET, principalSecretName(home));

    await space.capsule(home);
    await space.becomes(CAPSULE, home, 'Ready', 'False NamespaceConflict');
    expect(await environment.databases()).toEqual(kept);
    const after = await space.get<kinds.SecretObject>(SECRET, principalSecretName(home));
    expect(after?.metadata.resourceVersion).toBe(principal?.metadata.resourceVersion);
    expect((await space.get(NAMESPACE, namespace))?.metadata.deletionTimestamp).toBeUndefined();
  });

  test('leaves a claim without any other record to an administrator, and another Assistant with its id is told so', async () => {
    await space.start();
    const namespace = await space.settled();
    await space.stop();
    await space.delete(ASSISTANT, 'ledger');
    await space.patch(ASSISTANT, 'ledger', finalizers);
    await space.goes(ASSISTANT, 'ledger');
    for (const kind of [kinds.DEPLOYMENT, kinds.SERVICE, kinds.CONFIG_MAP])
      for (const { metadata } of await space.list(kind, namespace))
        await space.delete(kind, metadata.name, namespace);
    await space.start();
    const kept = await environment.databases();
    await space.assistant('next', { capsule: home, manifest: manifest('ledger') });
    await space.becomes(ASSISTANT, 'next', 'Accepted', 'False DuplicateIdentifier');
    expect(await space.message(ASSISTANT, 'next', 'Accepted')).toContain('Label Secret "ledger-database"');
    expect(await environment.databases()).toEqual(kept);
    const labels = { [LABEL.retained]: 'true' };
    await space.patch(SECRET, 'ledger-database', { metadata: { labels } }, namespace);
    await space.becomes(ASSISTANT, 'next', 'DatabaseReady', READY);
    expect(await environment.databases()).toEqual(kept);
    await space.removed(CAPSULE, home);
    expect(await environment.databases()).toEqual(before);
  });
});

describe('a principal whose Secret was deleted', () => {
  beforeEach(() => space.start());
  const administrator = (input: string, ...args: string[]) =>
    new Promise<string>((resolve, reject) => {
      const env = { PATH: process.env['PATH'], ...environment.database.mounts.environment };
      const program = join(import.meta.dirname, '../brokers/db/admin.ts');
      const child = execFile(process.execPath, [program, ...args], { env }, (error, out) =>
        error ? reject(error) : resolve(out),
      );
      child.stdin?.end(input);
    });
  const lose = async () => {
    await space.stop();
    await space.delete(SECRET, principalSecretName(home));
    await space.start();
    await space.becomes(CAPSULE, home, 'DatabaseReady', 'False PrincipalLost');
  };

  test('is reported with the administrator’s command, which repairs it with all data', async () => {
    const namespace = await space.settled();
    const kept = await environment.databases();
    await lose();
    const said = await space.message(CAPSULE, home, 'Ready');
    expect(said).toContain(`get secret ${principalSecretName(home)} -o jsonpath`);
    const command = `exec -i deploy/db-broker -- node /app/admin.mjs replace-principal ${home}`;
    expect(said).toContain(command);
    expect(await space.list(POD, namespace)).toHaveLength(1);
    await space.becomes(ASSISTANT, 'ledger', 'WorkloadReady', READY);
    // An end that needs the principal waits for it, too.
    await space.delete(ASSISTANT, 'ledger');
    await space.becomes(ASSISTANT, 'ledger', 'Finalized', 'False BrokerRefused');
    expect(await space.message(ASSISTANT, 'ledger', 'Finalized')).toContain(command);
    expect(await environment.databases()).toEqual(kept);

    const secret = await space.get<kinds.SecretObject>(SECRET, principalSecretName(home));
    const principal = Buffer.from(secret?.data?.['principal'] ?? '', 'base64').toString();
    expect(await administrator(principal, 'replace-principal', home)).toContain('"replaced":true');
    await space.becomes(CAPSULE, home, 'Ready', READY);
    await space.goes(ASSISTANT, 'ledger');
    expect(JSON.stringify([space.logs, await space.list(CAPSULE)])).not.toContain(principal);
    expect(space.logs.filter((line) => line.includes('reconcile failed')).length).toBeLessThan(40);
    await space.removed(CAPSULE, home);
    expect(await environment.databases()).toEqual(before);
  });

  test('twice keeps the Capsule from ending without its data', async () => {
    await space.capsule(home);
    await space.becomes(CAPSULE, home, 'Ready', READY);
    await lose();
    await space.stop();
    await space.delete(SECRET, principalSecretName(home));
    await space.delete(CAPSULE, home);
    await space.start();
    await space.becomes(CAPSULE, home, 'Finalized', 'False PrincipalLost');
    expect(await environment.databases()).not.toEqual(before);
    await administrator('', 'drop', home);
    await space.goes(CAPSULE, home);
    expect(await environment.databases()).toEqual(before);
  });

  test.each([
    ['', ''],
    [', with a newline at its end', '\n'],
  ])('is restored from a backup%s, and the Capsule continues', async (_, end) => {
    await space.settled();
    const kept = await space.get<kinds.SecretObject>(SECRET, principalSecretName(home));
    await lose();
    const principal = `${Buffer.from(kept?.data?.['principal'] ?? '', 'base64')}${end}`;
    await space.patch(SECRET, principalSecretName(home), { stringData: { principal } });
    await space.becomes(CAPSULE, home, 'Ready', READY);
    await space.removed(CAPSULE, home);
    expect(await environment.databases()).toEqual(before);
  });
});
