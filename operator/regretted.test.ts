import { describe, expect, test } from 'vitest';
import { eventually } from '../testing/eventually.ts';
import * as kinds from './kinds.ts';
import type { Resource } from './runtime/kube-object.ts';
import { eachFixture } from './testing/fixture.ts';
import type { TestSpace } from './testing/space.ts';
import type { TestEnvironment } from './testing/test-environment.ts';

/** A Space that keeps data for a while after a deletion (`retention.grace`). */

const { ASSISTANT, CAPSULE, DEPLOYMENT, POD, SECRET, SERVICE } = kinds;
const HOUR = 3_600_000;
let environment: TestEnvironment;
let space: TestSpace;
let home: string;
let before: string[];

eachFixture(async (fixture) => {
  ({ environment, space, home, before } = fixture);
  await space.start({ graceMs: HOUR });
});

const inGrace = (resource: Resource, name: string) =>
  space.becomes(resource, name, 'Finalized', 'False RetentionGrace');
const claim = (namespace: string) => space.get<kinds.SecretObject>(SECRET, 'ledger-database', namespace);

/** Waits until the operator has decided about a change of it, by the clocks of that time, or until it is deleted. */
async function decidedAgain(resource: Resource, name: string): Promise<void> {
  await space.patch(resource, name, { spec: { deletionPolicy: 'Drop' } });
  const decided = async () => {
    const object = await space.get<kinds.Capsule | kinds.Assistant>(resource, name);
    return !object || object.status?.observedGeneration === object.metadata.generation;
  };
  await eventually(decided, { what: `the decision about ${resource.kind} ${name}` });
}

/** Starts an operator for which the grace period is over; when it reads the final policy, that is Retain. */
async function lastMoment(resource: Resource, name: string): Promise<() => boolean> {
  const { client } = environment.server;
  let told = false;
  await space.start({
    graceMs: 1,
    client: {
      call: async (request) => {
        const asks = request.path.endsWith(`/${resource.plural}`) && 'fieldSelector' in (request.query ?? {});
        if (asks && !told) {
          told = true;
          await space.patch(resource, name, { spec: { deletionPolicy: 'Retain' } });
        }
        return client.call(request);
      },
      lines: (request) => client.lines(request),
    },
  });
  return () => told;
}

describe('an Assistant that was deleted', () => {
  test('no longer runs, has no URL anywhere, and has its data until the grace period is over', async () => {
    const namespace = await space.settled();
    const had = await environment.databases();
    await space.delete(ASSISTANT, 'ledger');
    await inGrace(ASSISTANT, 'ledger');
    for (const kind of [POD, DEPLOYMENT, SERVICE]) expect(await space.list(kind, namespace)).toEqual([]);
    await eventually(async () => (await claim(namespace))?.data === undefined, { what: 'the URL is gone' });
    expect(await environment.databases()).toEqual(had);
    expect(await space.message(ASSISTANT, 'ledger', 'Finalized')).toMatch(/dropped after 20\d\d-.*Z\. Until/);

    await space.stop();
    await space.start({ graceMs: 1 });
    await space.goes(ASSISTANT, 'ledger');
    expect((await environment.databases()).length).toBeLessThan(had.length);
    expect(await space.list(SECRET, namespace)).toEqual([]);
  });

  test('is removed by itself at the end of its grace period', async () => {
    await space.stop();
    await space.start({ graceMs: 2_000 });
    await space.settled();
    await space.removed(ASSISTANT, 'ledger');
    await space.removed(CAPSULE, home);
    expect(await environment.databases()).toEqual(before);
  });

  test('is restored with its data once a request keeps them', async () => {
    await space.settled();
    const url = await space.urlOf('ledger');
    const had = await environment.databases();
    await space.delete(ASSISTANT, 'ledger');
    await inGrace(ASSISTANT, 'ledger');
    await space.patch(ASSISTANT, 'ledger', { spec: { deletionPolicy: 'Retain' } });
    await space.goes(ASSISTANT, 'ledger');
    expect(await environment.databases()).toEqual(had);
    await space.assistant('ledger', { capsule: home });
    await space.becomes(ASSISTANT, 'ledger', 'Ready', 'True Ready');
    expect(await space.urlOf('ledger')).toBe(url);
  });

  test('is kept by a request at the last moment, before the operator has seen it', async () => {
    await space.settled();
    const had = await environment.databases();
    await space.delete(ASSISTANT, 'ledger');
    await inGrace(ASSISTANT, 'ledger');
    await space.stop();
    const told = await lastMoment(ASSISTANT, 'ledger');
    await space.goes(ASSISTANT, 'ledger');
    expect(told()).toBe(true);
    expect(await environment.databases()).toEqual(had);
  });
});

describe('a clock that is ahead', () => {
  const AHEAD = 2 * HOUR;
  const told = () => space.logs.filter((line) => line.includes('clocks differ'));

  test('of an operator that starts with it ends no grace period', async () => {
    await space.settled();
    const had = await environment.databases();
    await space.delete(CAPSULE, home);
    await inGrace(CAPSULE, home);
    await inGrace(ASSISTANT, 'ledger');
    await space.stop();
    await space.start({ graceMs: HOUR, wallClock: () => Date.now() + AHEAD });
    for (const [resource, name] of [
      [ASSISTANT, 'ledger'],
      [CAPSULE, home],
    ] as const)
      await decidedAgain(resource, name);
    expect(await environment.databases()).toEqual(had);
    expect(await space.condition(CAPSULE, home, 'Finalized')).toBe('False RetentionGrace');
    expect(told().length).toBeGreaterThan(0);
  });

  test('for only a moment ends no grace period', async () => {
    await space.stop();
    let ahead = 0;
    await space.start({ graceMs: HOUR, wallClock: () => Date.now() + ahead });
    await space.settled();
    const had = await environment.databases();
    await space.delete(ASSISTANT, 'ledger');
    await inGrace(ASSISTANT, 'ledger');
    ahead = AHEAD;
    await decidedAgain(ASSISTANT, 'ledger');
    expect(await environment.databases()).toEqual(had);
    expect(told().length).toBeGreaterThan(0);
  });
});

describe('a Capsule that was deleted', () => {
  test('keeps everything that belongs to it until the grace period is over', async () => {
    await space.settled();
    const had = await environment.databases();
    await space.delete(CAPSULE, home);
    await inGrace(CAPSULE, home);
    await inGrace(ASSISTANT, 'ledger');
    expect(await environment.databases()).toEqual(had);
    await space.stop();
    await space.start({ graceMs: 1 });
    await space.goes(CAPSULE, home);
    expect(await environment.databases()).toEqual(before);
  });

  test('is restored with its Assistants and their data', async () => {
    await space.settled();
    const url = await space.urlOf('ledger');
    const had = await environment.databases();
    await space.delete(CAPSULE, home);
    await inGrace(ASSISTANT, 'ledger');
    await space.patch(CAPSULE, home, { spec: { deletionPolicy: 'Retain' } });
    await space.goes(CAPSULE, home);
    expect(await environment.databases()).toEqual(had);
    await space.settled();
    expect(await space.urlOf('ledger')).toBe(url);
  });

  test('is kept by a request at the last moment, before the operator has seen it', async () => {
    await space.capsule(home);
    await space.becomes(CAPSULE, home, 'Ready', 'True Ready');
    const had = await environment.databases();
    await space.delete(CAPSULE, home);
    await inGrace(CAPSULE, home);
    await space.stop();
    const told = await lastMoment(CAPSULE, home);
    await space.goes(CAPSULE, home);
    expect(told()).toBe(true);
    expect(await environment.databases()).toEqual(had);
  });
});

test('an operator that is killed after any step of a deletion keeps the data, and the next operator restores the Assistant', async () => {
  await space.settled();
  const url = await space.urlOf('ledger');
  let acts = 0;
  for (let dieAfter = 1; ; dieAfter += 1) {
    await space.stop();
    await space.start({ graceMs: HOUR, dieAfter });
    if (dieAfter === 1) await space.delete(ASSISTANT, 'ledger');
    const ended = async () =>
      (await space.condition(ASSISTANT, 'ledger', 'Finalized')) === 'False RetentionGrace';
    await eventually(async () => space.run.dead || (await ended()), { what: 'the death or the grace' });
    acts += space.run.acts.length;
    if (!space.run.dead) break;
  }
  expect(acts).toBeGreaterThan(2);
  await space.stop();
  await space.start({ graceMs: HOUR });
  await space.patch(ASSISTANT, 'ledger', { spec: { deletionPolicy: 'Retain' } });
  await space.goes(ASSISTANT, 'ledger');
  await space.assistant('ledger', { capsule: home });
  await space.becomes(ASSISTANT, 'ledger', 'Ready', 'True Ready');
  expect(await space.urlOf('ledger')).toBe(url);
});
