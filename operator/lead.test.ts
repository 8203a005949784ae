import { expect, test } from 'vitest';
import { eventually } from '../testing/eventually.ts';
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

/** A watch that brings nothing. */
async function* silence(signal: AbortSignal | undefined): AsyncGenerator<string> {
  await new Promise((end) => signal?.addEventListener('abort', end));
}

test.each([
  ['of Capsules', (path: string) => path.endsWith('/capsules')],
  ['of anything', () => true],
])(
  'an operator that begins to lead, and hears nothing %s, makes nothing for a Capsule that is gone by then',
  async (_, isMute) => {
    const { client } = environment.server;
    await space.start();
    await space.capsule(space.home);
    await space.becomes(CAPSULE, space.home, 'Ready', READY);
    const other = await space.standby({
      client: {
        call: (request) => client.call(request),
        lines: async (request) => (isMute(request.path) ? silence(request.signal) : client.lines(request)),
      },
    });
    await space.removed(CAPSULE, space.home);
    await space.stop();
    const from = space.logs.length;
    await other.manager.started;
    await eventually(() => space.logs.slice(from).some((line) => line.includes('"controller":"capsule"')), {
      what: 'it has looked at the Capsule',
    });
    await other.manager.stop();
    await space.capsule(space.home);
    await space.start();
    await space.becomes(CAPSULE, space.home, 'Ready', READY);
    await space.removed(CAPSULE, space.home);
    expect(await environment.databases()).toEqual(before);
  },
);

test('an operator that begins to lead, and hears nothing of Assistants, starts none that is gone by then', async () => {
  const { client } = environment.server;
  await space.start();
  await space.capsule(space.home);
  await space.becomes(CAPSULE, space.home, 'Ready', READY);
  const empty = await environment.databases();
  await space.assistant('ledger', { capsule: space.home });
  await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
  const other = await space.standby({
    client: {
      call: (request) => client.call(request),
      lines: async (request) =>
        request.path.endsWith('/assistants') ? silence(request.signal) : client.lines(request),
    },
  });
  await space.removed(ASSISTANT, 'ledger');
  await space.stop();
  const from = space.logs.length;
  await other.manager.started;
  await eventually(() => space.logs.slice(from).some((line) => line.includes('"controller":"assistant"')), {
    what: 'it has looked at the Assistant',
  });
  await other.manager.stop();
  for (const kind of [kinds.DEPLOYMENT, kinds.SERVICE, kinds.SECRET])
    expect(await space.list(kind, space.namespaceOf(space.home))).toEqual([]);
  expect(await environment.databases()).toEqual(empty);
});
