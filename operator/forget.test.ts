import { expect, test } from 'vitest';
import { Usages } from './capsule/usages.ts';
import { forgetGone } from './forget.ts';
import type { Assistant, Capsule } from './kinds.ts';
import { CONFIG_MAP, NAMESPACE } from './kinds.ts';
import { Writer } from './runtime/apply.ts';
import type { ApiClient } from './runtime/client.ts';
import { Kept } from './runtime/kept.ts';
import { Store } from './runtime/store.ts';

const now = () => 0;

test('nothing is kept in memory of a Capsule or an Assistant that is deleted, however that happened', async () => {
  const stores = { capsules: new Store<Capsule>(), assistants: new Store<Assistant>() };
  const [databaseUsages, objectUsages, appUsages] = [
    new Usages<never>(now),
    new Usages<never>(now),
    new Usages<never>(now),
  ];
  const selections = new Kept<number>(now);
  forgetGone(stores, { databaseUsages, objectUsages, appUsages, selections } as never);
  let version = 0;
  const object = (uid: string) => {
    version += 1;
    const metadata = { namespace: 'home', name: 'a', uid, resourceVersion: String(version) };
    return { metadata, spec: {} } as never;
  };
  const knows = () => [databaseUsages, objectUsages, appUsages].map((one) => one.isFresh('1', 1_000));
  const select = (answer: number) =>
    selections.get('a', 1_000, async () => answer, new AbortController().signal);
  stores.capsules.set(object('1'));
  stores.assistants.set(object('1'));
  for (const one of [databaseUsages, objectUsages, appUsages]) one.note('1');
  await select(1);
  stores.capsules.set(object('1'));
  stores.assistants.set(object('1'));
  expect([...knows(), await select(2)]).toEqual([true, true, true, 1]);
  // Another of the name, whose predecessor was not seen to go.
  stores.assistants.set(object('2'));
  stores.capsules.delete('home/a');
  expect([...knows(), await select(3)]).toEqual([false, false, false, 3]);
});

test('a writer forgets deleted objects, and those of a deleted namespace', async () => {
  const client = { call: async () => ({ metadata: { name: 'stored-otherwise', uid: 'u' } }) };
  const writer = new Writer({
    client: client as unknown as ApiClient,
    fieldManager: 'test',
    digestAnnotation: 'platform.space/digest',
  });
  const wishes = ['one', 'two'].map((name) => ({
    metadata: { name, namespace: 'home-household' },
    data: {},
  }));
  for (const wish of wishes) await writer.apply(CONFIG_MAP, wish, undefined);
  await writer.apply(CONFIG_MAP, { metadata: { name: 'one', namespace: 'home-household-2' } }, undefined);
  expect(writer.remembered).toBe(3);
  for (const wish of wishes.slice(1)) await writer.remove(CONFIG_MAP, wish);
  expect(writer.remembered).toBe(2);
  await writer.remove(NAMESPACE, { metadata: { name: 'home-household' } });
  expect(writer.remembered).toBe(1);
});
