import { afterAll, beforeAll, expect, test } from 'vitest';
import { CAPSULE } from './kinds.ts';
import { type OperatorProcess, type OperatorProcesses, operatorProcesses } from './testing/process.ts';
import type { TestSpace } from './testing/space.ts';
import { openTestEnvironment, type TestEnvironment } from './testing/test-environment.ts';

/** What `operator.ts` leaves a lease at: who could not renew it for so long gives up. */
const GIVE_UP_MS = 10_000;

let environment: TestEnvironment;
beforeAll(async () => {
  environment = await openTestEnvironment();
});
afterAll(() => environment?.close());

/** Two processes of the operator's program: one leads, the other is warm. */
async function twoOf(space: TestSpace) {
  const operators = await operatorProcesses(environment, space);
  const first = await operators.start();
  await first.said('leading');
  const second = await operators.start();
  await second.said('warm');
  return { operators, first, second };
}

async function holds(operators: OperatorProcesses, { pod }: OperatorProcess): Promise<void> {
  expect((await operators.lease()).holderIdentity).toMatch(new RegExp(`^${pod}_`));
}

test.concurrent('a leader that is told to end releases the Lease, and the other operator continues', async () => {
  const space = await environment.space();
  const { operators, first, second } = await twoOf(space);
  try {
    await space.capsule(space.home);
    await space.becomes(CAPSULE, space.home, 'Ready', 'True Ready');
    first.signal('SIGTERM');
    await second.said('leading');
    expect(await first.ended()).toBe(0);
    await holds(operators, second);
    const next = `${space.home}-next`;
    await space.capsule(next);
    await space.becomes(CAPSULE, next, 'Ready', 'True Ready');
    for (const name of [space.home, next]) await space.removed(CAPSULE, name);
  } finally {
    await operators.close();
    await space.close();
  }
});

test.concurrent('after a leader was killed, the other waits as long as that one might still write', async () => {
  const space = await environment.space();
  const { operators, first, second } = await twoOf(space);
  try {
    first.signal('SIGKILL');
    expect(await first.ended()).toBe('SIGKILL');
    // It renews no more.
    const { renewTime } = await operators.lease();
    await holds(operators, first);
    await second.said('leading');
    await holds(operators, second);
    const { acquireTime } = await operators.lease();
    expect(Date.parse(acquireTime) - Date.parse(renewTime)).toBeGreaterThan(GIVE_UP_MS);
  } finally {
    await operators.close();
    await space.close();
  }
});

test.concurrent('after a leader was killed and its pod is gone, the other does not wait', async () => {
  const space = await environment.space();
  const { operators, first, second } = await twoOf(space);
  try {
    first.signal('SIGKILL');
    await first.ended();
    await first.removePod();
    await second.said('leading');
    await holds(operators, second);
  } finally {
    await operators.close();
    await space.close();
  }
});
