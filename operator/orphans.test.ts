import { describe, expect, test } from 'vitest';
import { eventually } from '../testing/eventually.ts';
import * as kinds from './kinds.ts';
import { ANNOTATION, LABEL, sealedSecretName } from './names.ts';
import type { ApiClient } from './runtime/client.ts';
import { ApiError } from './runtime/errors.ts';
import { pathOf } from './runtime/kube-object.ts';
import { eachFixture } from './testing/fixture.ts';
import { manifest } from './testing/manifest.ts';
import type { TestSpace } from './testing/space.ts';
import type { TestEnvironment } from './testing/test-environment.ts';

/** What an Assistant leaves whose finalizer somebody took off by force. */

const { ASSISTANT, CAPSULE, CONFIG_MAP, DEPLOYMENT, POD, SECRET, SERVICE } = kinds;
const READY = 'True Ready';
const AWAY = 'http://127.0.0.1:9';
let environment: TestEnvironment;
let space: TestSpace;
let home: string;
let before: string[];

eachFixture(async (fixture) => {
  ({ environment, space, home, before } = fixture);
  await space.start();
});

const again = async (options?: Parameters<TestSpace['start']>[0]) => {
  await space.stop();
  await space.start(options);
};
const strip = (name: string) => space.patch(ASSISTANT, name, { metadata: { finalizers: null } });
const leftOf = async (namespace: string, id: string) => {
  const lists = [DEPLOYMENT, SERVICE, CONFIG_MAP, POD].map((kind) => space.list(kind, namespace));
  const objects = (await Promise.all(lists)).flat();
  return objects.filter(({ metadata }) => metadata.labels?.[LABEL.assistant] === id).length;
};
const secretsIn = async (namespace: string) =>
  (await space.list<kinds.SecretObject>(SECRET, namespace)).map(({ metadata, data }) => ({
    name: metadata.name,
    retained: metadata.labels?.[LABEL.retained] === 'true',
    keys: Object.keys(data ?? {}),
  }));
const RETAINED = [{ name: 'ledger-database', retained: true, keys: [] }];

describe('an Assistant that was removed without its finalizer', () => {
  test('no longer runs, and its database is kept for the next one with its id', async () => {
    const namespace = await space.settled();
    const url = await space.urlOf('ledger');
    const kept = await environment.databases();
    await space.stop();
    await strip('ledger');
    await space.removed(ASSISTANT, 'ledger');
    await space.start();
    await eventually(async () => (await leftOf(namespace, 'ledger')) === 0, {
      what: 'nothing of it is left',
    });
    await eventually(async () => (await secretsIn(namespace))[0]?.retained, { what: 'its claim is free' });
    expect(await secretsIn(namespace)).toEqual(RETAINED);
    expect(await environment.databases()).toEqual(kept);
    // Events are sent beside the work that they tell of.
    const told = await eventually(
      async () => {
        const found = (await space.events(home)).filter(({ reason }) => reason === 'OrphanTakenAway');
        return found.length > 0 && found;
      },
      { what: 'the Event' },
    );
    expect(told.map(({ note }) => note)).toEqual([expect.stringContaining('"ledger"')]);

    await space.assistant('ledger', { capsule: home });
    await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
    expect(await space.urlOf('ledger')).toBe(url);
    await space.removed(CAPSULE, home);
    expect(await environment.databases()).toEqual(before);
  });

  test('during its deletion is removed as far as possible without loss of data', async () => {
    const namespace = await space.settled();
    const kept = await environment.databases();
    await again({ brokerUrl: AWAY });
    await space.delete(ASSISTANT, 'ledger');
    await space.becomes(ASSISTANT, 'ledger', 'Finalized', 'False BrokerUnreachable');
    await strip('ledger');
    await space.goes(ASSISTANT, 'ledger');
    await eventually(async () => (await leftOf(namespace, 'ledger')) === 0, {
      what: 'nothing of it is left',
    });
    await eventually(async () => (await secretsIn(namespace))[0]?.retained, { what: 'its claim is free' });
    expect(await secretsIn(namespace)).toEqual(RETAINED);
    expect(await environment.databases()).toEqual(kept);
    await again();
    await space.removed(CAPSULE, home);
    expect(await environment.databases()).toEqual(before);
  });

  test('does not run on while the API server refuses a write about its Capsule', async () => {
    const namespace = await space.settled();
    await space.stop();
    await strip('ledger');
    await space.removed(ASSISTANT, 'ledger');
    await space.delete(kinds.LIMIT_RANGE, 'space-limits', namespace);
    const { client } = environment.server;
    await space.start({
      client: {
        ...client,
        async call(request) {
          if (request.method === 'PATCH' && request.path.includes('/limitranges/'))
            throw new ApiError({ status: 403, reason: 'Forbidden', message: 'a policy refuses it' });
          return client.call(request);
        },
      },
    });
    await space.becomes(CAPSULE, home, 'NamespaceReady', 'False WriteRefused');
    await eventually(async () => (await leftOf(namespace, 'ledger')) === 0, {
      what: 'nothing of it is left',
    });
    await again();
    await space.removed(CAPSULE, home);
    expect(await environment.databases()).toEqual(before);
  });

  test('leaves no sealed input when its Capsule ends before anybody has seen that', async () => {
    await space.settled();
    await space.stop();
    const { uid } = (await space.get(ASSISTANT, 'ledger'))?.metadata ?? {};
    const sealed = (id: string, owner: string | undefined) =>
      environment.server.client.call({
        method: 'POST',
        path: pathOf(SECRET, space.names.systemNamespace),
        body: {
          metadata: { name: sealedSecretName(home, id), annotations: { [ANNOTATION.owner]: owner } },
        },
      });
    await sealed('ledger', uid);
    await sealed('other', 'another');
    await strip('ledger');
    await space.removed(ASSISTANT, 'ledger');
    await space.delete(CAPSULE, home);
    await space.start();
    await space.goes(CAPSULE, home);
    const left = (await space.list(SECRET)).map(({ metadata }) => metadata.name);
    expect(left).toEqual([sealedSecretName(home, 'other')]);
    expect(await environment.databases()).toEqual(before);
  });

  test('does not run on while the data of its Capsule, which was deleted, is in its grace period', async () => {
    const namespace = await space.settled();
    const kept = await environment.databases();
    await space.stop();
    await strip('ledger');
    await space.removed(ASSISTANT, 'ledger');
    await space.delete(CAPSULE, home);
    await space.start({ graceMs: 3_600_000 });
    await space.becomes(CAPSULE, home, 'Finalized', 'False RetentionGrace');
    await eventually(async () => (await leftOf(namespace, 'ledger')) === 0, {
      what: 'nothing of it is left',
    });
    await eventually(async () => (await secretsIn(namespace))[0]?.retained, { what: 'its claim is free' });
    expect(await environment.databases()).toEqual(kept);
    await again({ graceMs: 1 });
    await space.goes(CAPSULE, home);
    expect(await environment.databases()).toEqual(before);
  });

  test('counts as deleted only when the API server says so', async () => {
    const namespace = await space.settled();
    await space.assistant('journal', { capsule: home, manifest: manifest('journal') });
    await space.becomes(ASSISTANT, 'journal', 'Ready', READY);
    const { client } = environment.server;
    let asked = 0;
    // A store that lacks one of them: its list and its watch pass it over, and what is asked besides does not.
    const blind: ApiClient = {
      async call<T>(request: Parameters<ApiClient['call']>[0]) {
        const answer = await client.call<T>(request);
        if (request.method !== 'GET' || !request.path.endsWith('/assistants')) return answer;
        if (request.query?.['limit'] !== '500') {
          asked += 1;
          return answer;
        }
        const list = answer as unknown as { items: kinds.Assistant[] };
        return { ...list, items: list.items.filter(({ metadata }) => metadata.name !== 'journal') } as T;
      },
      async lines(request) {
        const lines = await client.lines(request);
        if (!request.path.endsWith('/assistants')) return lines;
        return (async function* () {
          for await (const line of lines) if (!line.includes('"name":"journal"')) yield line;
        })();
      },
    };
    await again({ client: blind });
    await eventually(() => asked > 0, { what: 'the API server is asked' });
    // One that is really deleted is found by the same checks.
    await strip('ledger');
    await space.delete(ASSISTANT, 'ledger');
    await space.goes(ASSISTANT, 'ledger');
    await eventually(async () => (await leftOf(namespace, 'ledger')) === 0, { what: 'that of the other' });
    expect(await leftOf(namespace, 'journal')).toBe(5);
    await again();
    await space.becomes(ASSISTANT, 'journal', 'Ready', READY);
    await space.removed(CAPSULE, home);
    expect(await environment.databases()).toEqual(before);
  });
});
