import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { type Assistant, newAssistant } from './testing/assistant.ts';
import { type Between, type Fate, startBetween } from './testing/between.ts';
import type { TestBroker } from './testing/broker.ts';
import { type Fixture, openFixture } from './testing/fixture.ts';

/** What the broker does for itself, while tenants have every connection to the S3 server that is theirs. */

let fixture: Fixture;
let between: Between;
let broker: TestBroker;
let reader: Assistant;
beforeAll(async () => {
  fixture = await openFixture();
  between = await startBetween(fixture.s3);
  broker = await fixture.replica({ environment: { S3_ENDPOINT: between.endpoint, OBJECT_CONNECTIONS: '1' } });
  reader = await newAssistant(broker);
  expect((await reader.put('long', 'x')).status).toBe(200);
});
afterAll(async () => {
  await broker?.stop();
  await between?.close();
  await fixture?.close();
});
beforeEach(() => {
  between.fate = () => 'pass';
});

/** Does it while somebody reads an object through the one connection of all tenants. */
async function whileHeld(act: () => Promise<void>): Promise<void> {
  const [held, over] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  between.fate = async ({ method, url }): Promise<Fate> => {
    if (method !== 'GET' || !url?.endsWith('/long')) return 'pass';
    held.resolve();
    await over.promise;
    return 'pass';
  };
  const read = reader.get('long');
  await held.promise;
  try {
    await act();
    expect(await Promise.race([read, 'held'])).toBe('held');
  } finally {
    over.resolve();
  }
  expect((await read).status).toBe(200);
}

test('credentials of a Capsule are listed', async () => {
  const owner = await broker.capsule('keeper');
  await whileHeld(async () => {
    const listed = await owner.post('/v1/capsules/credentials/list', { capsule_id: 'keeper' });
    expect(listed.status).toBe(200);
  });
});

test('principals are retired, and their objects are deleted', async () => {
  const owner = await broker.capsule('leaving');
  await broker.workload(owner, 'leaving', 'app');
  await whileHeld(async () => {
    expect((await owner.drop('leaving', 'app')).status).toBe(200);
    expect((await owner.dropAll('leaving')).status).toBe(200);
  });
});
