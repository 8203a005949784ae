import { expect, test } from 'vitest';
import { eventually } from '../testing/eventually.ts';
import * as kinds from './kinds.ts';
import type { Resource } from './runtime/kube-object.ts';
import { eachFixture } from './testing/fixture.ts';
import type { TestSpace } from './testing/space.ts';
import type { TestEnvironment } from './testing/test-environment.ts';

/** A request to keep the data that arrives while the data is being dropped, or after that. */

const { ASSISTANT, CAPSULE } = kinds;
const READY = 'True Ready';
/** More acts than a deletion has. */
const MOST_ACTS = 20;
let environment: TestEnvironment;
let space: TestSpace;
let home: string;
let before: string[];

eachFixture(async (fixture) => {
  ({ environment, space, home, before } = fixture);
  await space.start();
});

interface Regretted {
  /** The act after which the operator died. */
  readonly when: string;
  readonly isKept: boolean;
  /** Reason and note of each Event of what was deleted. */
  readonly told: () => Promise<readonly string[]>;
}

/**
 * Deletes it, has the operator die after so many acts, and then asks for its data to be kept; undefined where it was gone
 * by then. All is kept, or nothing but what `without` has.
 */
async function regretted(
  [resource, name]: readonly [Resource, string],
  dieAfter: number,
  without: () => string[],
): Promise<Regretted | 'survived' | 'gone'> {
  const [had, uid] = [await environment.databases(), (await space.get(resource, name))?.metadata.uid];
  const isGone = async () => (await space.get(resource, name)) === undefined;
  space.run.arm(dieAfter);
  await space.delete(resource, name);
  await eventually(async () => space.run.dead || (await isGone()), { what: 'its death, or its end' });
  const { dead, acts } = space.run;
  await space.stop();
  const late = dead && !(await isGone());
  if (late) await space.patch(resource, name, { spec: { deletionPolicy: 'Retain' } });
  await space.start();
  if (!late) return dead ? 'gone' : 'survived';
  await space.goes(resource, name);
  const left = await environment.databases();
  const isKept = left.length === had.length;
  const when = `killed after ${acts.at(-1)}`;
  expect(left, when).toEqual(isKept ? had : without());
  const told = async () =>
    (await space.events(name))
      .filter(({ regarding }) => regarding.uid === uid)
      .map(({ reason, note }) => `${reason}: ${note}`);
  return { when, isKept, told };
}

/** Does it with a kill after each act of a deletion; answers whether it was ever kept, and ever not. */
async function afterEachAct(once: (dieAfter: number) => Promise<Regretted | 'survived' | 'gone'>) {
  const fates = new Set<boolean>();
  for (let dieAfter = 1; ; dieAfter += 1) {
    expect(dieAfter).toBeLessThan(MOST_ACTS);
    const fate = await once(dieAfter);
    if (fate === 'survived') return fates;
    if (fate !== 'gone') fates.add(fate.isKept);
  }
}

test('a Capsule is kept completely or not at all and reports which, and the next one of its name has that', async () => {
  const fates = await afterEachAct(async (dieAfter) => {
    await space.capsule(home);
    await space.becomes(CAPSULE, home, 'Ready', READY);
    const fate = await regretted([CAPSULE, home], dieAfter, () => before);
    if (typeof fate !== 'object') return fate;
    const { when, isKept, told } = fate;
    // Events are sent beside the work that they tell of.
    const end = await eventually(
      async () => (await told()).find((one) => one.startsWith('CapsuleFinalized')),
      { what: `the Event, ${when}` },
    );
    expect(end, when).toMatch(
      isKept
        ? /its data and its principals are kept/
        : /: Its databases are (dropped|no longer accessible): /,
    );
    await space.capsule(home);
    await space.becomes(CAPSULE, home, 'Ready', READY);
    await space.removed(CAPSULE, home);
    expect(await environment.databases(), when).toEqual(before);
    return fate;
  });
  expect(fates).toEqual(new Set([true, false]));
}, 600_000);

test('an Assistant is kept or not and reports which, and the next one with its id has that', async () => {
  await space.capsule(home);
  await space.becomes(CAPSULE, home, 'Ready', READY);
  const empty = await environment.databases();
  const fates = await afterEachAct(async (dieAfter) => {
    await space.assistant('ledger', { capsule: home });
    await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
    const url = await space.urlOf('ledger');
    const fate = await regretted([ASSISTANT, 'ledger'], dieAfter, () => empty);
    if (typeof fate !== 'object') return fate;
    const { when, isKept, told } = fate;
    const ends = (await told())
      .map((one) => one.split(':')[0])
      .filter((reason) => reason?.startsWith('Database'));
    expect(ends, when).not.toContain(isKept ? 'DatabaseDropped' : 'DatabaseRetained');
    await space.assistant('ledger', { capsule: home });
    await space.becomes(ASSISTANT, 'ledger', 'Ready', READY);
    expect((await space.urlOf('ledger')) === url, when).toBe(isKept);
    await space.removed(ASSISTANT, 'ledger');
    expect(await environment.databases(), when).toEqual(empty);
    return fate;
  });
  expect(fates).toEqual(new Set([true, false]));
}, 600_000);
