import { expect, test } from 'vitest';
import { eventually } from '../testing/eventually.ts';
import * as kinds from './kinds.ts';
import { eachFixture } from './testing/fixture.ts';
import { agreeingObjects } from './testing/objects.ts';
import type { TestSpace } from './testing/space.ts';

/** What Assistants of one Capsule do to those of others at the operator, which is one for all. */

const { ASSISTANT } = kinds;
let space: TestSpace;

eachFixture((fixture) => {
  space = fixture.space;
});

/** More than the operator has workers. */
const MANY = 40;

/** An object store that does not answer this Capsule until it is released. */
function stallingFor(capsule: string) {
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  let waiting = 0;
  const objectStore = agreeingObjects({
    async createApp(of) {
      if (of !== capsule) return;
      waiting += 1;
      await released;
    },
  });
  return { objectStore, release, waiting: () => waiting };
}

test('Assistants of one Capsule that wait for a broker do not block those of another', async () => {
  const [busy, quiet] = [`${space.home}-busy`, `${space.home}-quiet`];
  const { objectStore, release, waiting } = stallingFor(busy);
  // It gives up none of those that wait, however long a busy machine takes to serve the other.
  await space.start({ objectStore, reconcileMs: 600_000 });
  for (const name of [busy, quiet]) await space.capsule(name);
  for (const name of [busy, quiet]) await space.becomes(kinds.CAPSULE, name, 'Ready', 'True Ready');
  for (let i = 0; i < MANY; i++) await space.assistant(`busy-${i}`, { capsule: busy });
  await eventually(() => waiting() >= 8, { what: 'its Assistants wait' });
  await space.assistant('quiet', { capsule: quiet });
  const isReady = async () => (await space.condition(ASSISTANT, 'quiet', 'Ready')) === 'True Ready';
  await eventually(isReady, { what: 'the other is ready' }).finally(release);
  expect(waiting()).toBeLessThan(MANY);
});
