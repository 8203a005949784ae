import { digestOf, newToken, Secret } from '@space/broker-kit';
import type { Session } from '@space/broker-kit/postgres';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Stage, setStage } from '../testing/stage.ts';
import { createTenants } from './tenants.ts';

let stage: Stage;
beforeAll(async () => {
  stage = await setStage();
});
afterAll(() => stage?.close());

/** The registry's own session, and what it was asked. */
function counted(): { readonly session: Session; readonly asked: string[] } {
  const { lookup } = stage.broker.context.connections;
  const asked: string[] = [];
  const session: Session = {
    run: (step, text, values) => {
      asked.push(text);
      return lookup.run(step, text, values);
    },
  };
  return { session, asked };
}

test('many who ask at once are answered by few statements, each with what is its own', async () => {
  const { broker } = stage;
  const capsule = await broker.capsule('many');
  const apps = ['one', 'two', 'three'];
  const tokens = await Promise.all(apps.map((app) => broker.workload(capsule, 'many', app)));
  const { session, asked } = counted();
  const tenants = createTenants(session, 1_000);
  const found = await Promise.all(
    Array.from({ length: 90 }, (_, i) => tenants.byDigest(digestOf(new Secret(tokens[i % 3] ?? '')))),
  );
  expect(found.map((tenant) => tenant?.app)).toEqual(Array.from({ length: 90 }, (_, i) => apps[i % 3]));
  expect(new Set(found.map((tenant) => tenant?.room.data)).size).toBe(3);
  expect(new Set(found.map((tenant) => tenant?.room.shared)).size).toBe(1);
  expect(found[0]?.quotaBytes).toBe(1_000);
  expect(asked.length).toBeLessThanOrEqual(2);
});

test('an answer is never older than the question', async () => {
  const { broker } = stage;
  const capsule = await broker.capsule('fresh');
  const token = await broker.workload(capsule, 'fresh', 'app');
  const digest = digestOf(new Secret(token));
  const tenants = createTenants(broker.context.connections.lookup, 1_000);
  // Somebody asks without a pause, so that a look-up is always on its way.
  let asking = true;
  const others = (async () => {
    while (asking) await tenants.byDigest(digest);
  })();
  expect((await tenants.byDigest(digest))?.app).toBe('app');
  await capsule.drop('fresh', 'app');
  expect(await tenants.byDigest(digest)).toBeUndefined();
  asking = false;
  await others;
});

test('nobody is found by a digest that only begins like another', async () => {
  const { broker } = stage;
  const capsule = await broker.capsule('alike');
  const digest = digestOf(new Secret(await broker.workload(capsule, 'alike', 'app')));
  const tenants = createTenants(broker.context.connections.lookup, 1_000);
  const alike = Buffer.from(digest);
  alike[31] = (alike[31] ?? 0) ^ 1;
  expect(await tenants.byDigest(alike)).toBeUndefined();
  expect((await tenants.byHandle(digest.subarray(0, 16)))?.app).toBe('app');
  expect(await tenants.byDigest(digestOf(newToken('osw')))).toBeUndefined();
});

test('one and many are found by the index of principals, however many Assistants there are', async () => {
  const { lookup } = stage.broker.context.connections;
  const { session, asked } = counted();
  const tenants = createTenants(session, 1_000);
  const ask = () => tenants.byDigest(digestOf(newToken('osw')));
  await ask();
  await Promise.all([ask(), ask(), ask()]);
  expect(new Set(asked).size).toBe(2);
  for (const text of asked) {
    const rows = await lookup.run<{ 'QUERY PLAN': string }>('explain', `EXPLAIN (GENERIC_PLAN) ${text}`);
    const plan = rows.map((row) => row['QUERY PLAN']).join('\n');
    expect(plan).toMatch(
      /Index Scan using workload_principal_key on workload w\s+\(.*\)\s+Index Cond: \(\(principal >=/,
    );
    expect(plan).not.toContain('Seq Scan');
  }
});
