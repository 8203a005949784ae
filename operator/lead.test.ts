import { expect, test } from 'vitest';
import * as kinds from './kinds.ts';
import { eachFixture } from './testing/fixture.ts';
import { manifest } from './testing/manifest.ts';
import type { TestSpace } from './testing/space.ts';
import type { TestEnvironment } from './testing/test-environment.ts';

const { ASSISTANT, CAPSULE } = kinds;
const READY = 'True Ready';
let environment: TestEnvironment;
let space: TestSpace;
let before: string[];

eachFixture((fixture) => {
  ({ environment, space, before } = fixture);
});

test('one of two operators works; the other writes nothing, and continues where the first ends', async () => {
  await space.start();
  const other = await space.standby();
  await space.settled();
  expect(other.manager.ready).toBe(false);
  expect(other.run.acts).toEqual([]);
  await space.stop();
  await other.manager.started;
  await space.assistant('second', { capsule: space.home, manifest: manifest('second') });
  await space.becomes(ASSISTANT, 'second', 'Ready', READY);
  await space.removed(CAPSULE, space.home);
  expect(await environment.databases()).toEqual(before);
});

test.each([3, 8, 14, 20])(
  'the other operator completes what one began that was killed after %i steps',
  async (dieAfter) => {
    await space.start({ dieAfter });
    const other = await space.standby();
    await space.settled();
    expect(space.run.dead).toBe(true);
    expect(other.manager.ready).toBe(true);
    await space.removed(CAPSULE, space.home);
    expect(await environment.databases()).toEqual(before);
  },
);

test('operators that take over from one another quickly do nothing twice', async () => {
  let current = await space.standby();
  await current.manager.started;
  await space.capsule(space.home);
  await space.assistant('ledger', { capsule: space.home });
  for (let i = 0; i < 6; i++) {
    const next = await space.standby();
    await current.manager.stop();
    await next.manager.started;
    current = next;
  }
  await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
  expect((await space.list(kinds.POD, space.namespaceOf(space.home))).length).toBe(1);
  expect((await environment.databases()).length - before.length).toBe(4);
  await space.removed(CAPSULE, space.home);
  expect(await environment.databases()).toEqual(before);
});
