import { afterAll, beforeAll, expect, test } from 'vitest';
import { eventually } from '../testing/eventually.ts';
import * as kinds from './kinds.ts';
import type { TestSpace } from './testing/space.ts';
import { openTestEnvironment, type TestEnvironment } from './testing/test-environment.ts';

const { ASSISTANT, CAPSULE, NAMESPACE, POD, SECRET } = kinds;
let environment: TestEnvironment;
let before: string[];

beforeAll(async () => {
  environment = await openTestEnvironment();
  before = await environment.databases();
});
afterAll(() => environment?.close());

/** More acts than any life here has: what is beyond is tried and found never to be reached. */
const MOST_ACTS = 60;
const ONE_OF_EACH = { pods: 1, secrets: 1, services: 1, documents: 2 };

test('kill -9 after any write or broker call during creation or deletion leaves no duplicates and no leftovers', async () => {
  const acts = { life: 0, death: 0 };
  let next = 1;
  let survived = false;
  // Four at a time: most of a life is waiting for the server.
  const lane = async () => {
    while (!survived) {
      const dieAfter = next++;
      expect(dieAfter).toBeLessThan(MOST_ACTS);
      const died = await lifeAndDeath(dieAfter);
      if (died.life) acts.life = Math.max(acts.life, dieAfter);
      if (died.death) acts.death = Math.max(acts.death, dieAfter);
      if (!died.life && !died.death) survived = true;
    }
  };
  await Promise.all([lane(), lane(), lane(), lane()]);
  expect(acts.life).toBeGreaterThan(18);
  expect(acts.death).toBeGreaterThan(8);
  expect(await environment.databases()).toEqual(before);
}, 1_800_000);

/** One life and one death, each with an operator that dies after its nth act and with another that takes over. */
async function lifeAndDeath(dieAfter: number): Promise<{ life: boolean; death: boolean }> {
  const space = await environment.space();
  const capsule = `crash-${dieAfter}`;
  const when = `after dying after act ${dieAfter}`;
  await space.start({ dieAfter });
  await space.capsule(capsule);
  await space.assistant('ledger', { capsule });
  const ready = async () => (await space.condition(ASSISTANT, 'ledger', 'Ready')) === 'True Ready';
  const life = await deadOr(space, ready);
  await space.start();
  await space.becomes(ASSISTANT, 'ledger', 'Ready', 'True Ready');
  await space.becomes(CAPSULE, capsule, 'Ready', 'True Ready');
  expect(await inventory(space, capsule), when).toEqual(ONE_OF_EACH);
  await counted(space, capsule);

  space.run.arm(dieAfter);
  await space.delete(CAPSULE, capsule);
  const death = await deadOr(space, async () => (await space.get(CAPSULE, capsule)) === undefined);
  await space.start();
  await space.goes(CAPSULE, capsule);
  expect(await space.list(SECRET), when).toEqual([]);
  expect(await space.get(NAMESPACE, space.namespaceOf(capsule)), when).toBeUndefined();
  await space.close();
  return { life, death };
}

/** The last act of a life: the Capsule has counted its Assistant. */
async function counted(space: TestSpace, capsule: string): Promise<void> {
  const ready = async () =>
    (await space.get<kinds.Capsule>(CAPSULE, capsule))?.status?.assistants?.ready === 1;
  await eventually(ready, { what: 'the Assistant is counted' });
}

/** Waits for the operator's death, or its goal, and ends it; says whether it died. */
async function deadOr(space: TestSpace, goal: () => Promise<boolean>): Promise<boolean> {
  await eventually(async () => space.run.dead || (await goal()), { what: 'its death, or its goal' });
  const { dead } = space.run;
  await space.stop();
  return dead;
}

async function inventory(space: TestSpace, capsule: string): Promise<typeof ONE_OF_EACH> {
  const namespace = space.namespaceOf(capsule);
  const count = async (...where: Parameters<TestSpace['list']>) => (await space.list(...where)).length;
  return {
    pods: await count(POD, namespace),
    secrets: await count(SECRET, namespace),
    services: await count(kinds.SERVICE, namespace),
    documents: await count(kinds.CONFIG_MAP, namespace),
  };
}
