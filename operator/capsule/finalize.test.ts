import { describe, expect, test } from 'vitest';
import { eventually } from '../../testing/eventually.ts';
import * as kinds from '../kinds.ts';
import { ANNOTATION, LABEL } from '../names.ts';
import { pathOf } from '../runtime/kube-object.ts';
import { eachFixture } from '../testing/fixture.ts';
import type { TestSpace } from '../testing/space.ts';
import type { TestEnvironment } from '../testing/test-environment.ts';

const { ASSISTANT, CAPSULE, NAMESPACE } = kinds;
let environment: TestEnvironment;
let space: TestSpace;
let home: string;

eachFixture(async (fixture) => {
  ({ environment, space, home } = fixture);
  await space.start();
});

describe('the end of a Capsule', () => {
  test.each<[string, Record<string, string | null>]>([
    ['the label of its Space', { [LABEL.space]: null }],
    ['the label of its Capsule', { [LABEL.capsule]: null }],
    ['both labels', { [LABEL.space]: null, [LABEL.capsule]: null }],
  ])('deletes its namespace, although that has lost %s', async (_, labels) => {
    const namespace = await space.settled();
    await space.stop();
    await space.patch(NAMESPACE, namespace, { metadata: { labels } });
    await space.delete(CAPSULE, home);
    await space.start();
    await space.goes(CAPSULE, home);
    expect(await space.get(NAMESPACE, namespace)).toBeUndefined();
  });

  test('waits for a namespace that lost its labels while it was being deleted', async () => {
    const namespace = await space.settled();
    const held = { metadata: { finalizers: ['example.com/held'] } };
    await space.patch(NAMESPACE, namespace, held);
    await space.delete(CAPSULE, home);
    await space.becomes(CAPSULE, home, 'Finalized', 'False NamespaceTerminating');
    await space.stop();
    await space.patch(NAMESPACE, namespace, { metadata: { labels: { [LABEL.space]: null } } });
    await space.start();
    await space.becomes(CAPSULE, home, 'Finalized', 'False NamespaceTerminating');
    await space.patch(NAMESPACE, namespace, { metadata: { finalizers: null } });
    await space.goes(CAPSULE, home);
    expect(await space.get(NAMESPACE, namespace)).toBeUndefined();
  });

  test.each<[string, object]>([
    ['somebody else has made', {}],
    ['was made for an earlier one', { annotations: { [ANNOTATION.owner]: 'another' } }],
  ])('does not touch a namespace of its name that %s', async (_, marks) => {
    const namespace = space.namespaceOf(home);
    await space.stop();
    const { client } = environment.server;
    const made = await client.call<kinds.Namespace>({
      method: 'POST',
      path: pathOf(NAMESPACE),
      body: { metadata: { name: namespace, ...marks } },
    });
    await space.start();
    await space.capsule(home);
    await space.becomes(CAPSULE, home, 'NamespaceReady', 'False NamespaceConflict');
    await space.removed(CAPSULE, home);
    const left = await space.get<kinds.Namespace>(NAMESPACE, namespace);
    expect(left?.metadata).toMatchObject({ uid: made.metadata.uid, ...marks });
    expect(left?.metadata.deletionTimestamp).toBeUndefined();
    expect(left?.metadata.labels?.[LABEL.space]).toBeUndefined();
  });

  test('leaves the next one of its name and the Assistants of that alone, while a store still has it', async () => {
    await space.settled();
    await space.stop();
    const { client } = environment.server;
    const told = Promise.withResolvers<void>();
    await space.start({
      client: {
        call: (request) => client.call(request),
        async lines(request) {
          const lines = await client.lines(request);
          if (!request.path.endsWith('/capsules')) return lines;
          request.signal?.addEventListener('abort', () => told.resolve());
          return (async function* () {
            for await (const line of lines) {
              if (line.includes('"type":"DELETED"')) await told.promise;
              yield line;
            }
          })();
        },
      },
    });
    await space.removed(CAPSULE, home);
    await space.capsule(home);
    const before = space.logs.length;
    await space.assistant('ledger', { capsule: home });
    const isLooked = (line: string) =>
      ['"reconciled"', '"controller":"capsule"', `/${home}"`].every((part) => line.includes(part));
    await eventually(() => space.logs.slice(before).some(isLooked), {
      what: 'its end is gone through again',
    });
    const { metadata } = (await space.get(ASSISTANT, 'ledger')) ?? {};
    expect([metadata?.name, metadata?.deletionTimestamp]).toEqual(['ledger', undefined]);
    told.resolve();
    await space.becomes(ASSISTANT, 'ledger', 'Ready', 'True Ready');
    await space.removed(CAPSULE, home);
  });
});
