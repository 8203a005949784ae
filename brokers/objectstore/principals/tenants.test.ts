import { digestOf, newToken, Secret, type TokenDigest } from '@space/broker-kit';
import { type Session, sessionOver } from '@space/broker-kit/postgres';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Fixture, openFixture } from '../testing/fixture.ts';
import { createTenants, type Evidence, LEASE_MS } from './tenants.ts';

let fixture: Fixture;
beforeAll(async () => {
  fixture = await openFixture();
});
afterAll(() => fixture?.close());

function evidence(): Evidence {
  const { bindings, epochs } = fixture.broker.context;
  return { bindings, epochs, onForged: (capsule) => expect(capsule).toBe('nobody') };
}

/** The registry's own session, and what it was asked. */
function counted(): { readonly session: Session; readonly asked: string[] } {
  const { lookup } = fixture.broker.context.connections;
  const asked: string[] = [];
  const session = sessionOver((step, text, values) => {
    asked.push(text);
    return lookup.run(step, text, values);
  });
  return { session, asked };
}

test('many callers at once are answered with few statements, each with its own result', async () => {
  const { broker } = fixture;
  const capsule = await broker.capsule('many');
  const apps = ['one', 'two', 'three'];
  const tokens = await Promise.all(apps.map((app) => broker.workload(capsule, 'many', app)));
  const { session, asked } = counted();
  const tenants = createTenants(session, 1_000, evidence());
  const found = await Promise.all(
    Array.from({ length: 90 }, (_, i) => tenants.byDigest(digestOf(new Secret(tokens[i % 3] ?? '')))),
  );
  expect(found.map((tenant) => tenant?.app)).toEqual(Array.from({ length: 90 }, (_, i) => apps[i % 3]));
  expect(new Set(found.map((tenant) => tenant?.prefixes.data)).size).toBe(3);
  expect(new Set(found.map((tenant) => tenant?.prefixes.shared)).size).toBe(1);
  expect(found[0]?.quotaBytes).toBe(1_000);
  expect(asked.length).toBeLessThanOrEqual(2);
});

/** Of a new Assistant, alone in a Capsule. */
async function someone(id: string): Promise<TokenDigest> {
  const capsule = await fixture.broker.capsule(id);
  return digestOf(new Secret(await fixture.broker.workload(capsule, id, 'app')));
}

test('a found principal is cached for the time of a lease, and an unknown one is not', async () => {
  const digest = await someone('lease');
  const { session, asked } = counted();
  let time = 0;
  const tenants = createTenants(session, 1_000, evidence(), () => time);
  const ask = async (at: number, who = digest) => {
    time = at;
    const tenant = await tenants.byDigest(who);
    return [tenant?.app, asked.length];
  };
  expect(await ask(0)).toEqual(['app', 1]);
  expect(await ask(LEASE_MS - 1)).toEqual(['app', 1]);
  expect(await ask(LEASE_MS)).toEqual(['app', 2]);
  const nobody = digestOf(newToken('osw'));
  expect(await ask(LEASE_MS, nobody)).toEqual([undefined, 3]);
  expect(await ask(LEASE_MS, nobody)).toEqual([undefined, 4]);
});

test('a lease begins before its look-up, however long that takes', async () => {
  const digest = await someone('slow');
  const { session, asked } = counted();
  let time = 0;
  const slow = sessionOver(async (...statement) => {
    const rows = await session.run(...statement);
    time += LEASE_MS;
    return rows as never;
  });
  const tenants = createTenants(slow, 1_000, evidence(), () => time);
  await tenants.byDigest(digest);
  await tenants.byDigest(digest);
  expect(asked.length).toBe(2);
});

test('no principal is found by a digest that only begins like another', async () => {
  const { broker } = fixture;
  const capsule = await broker.capsule('alike');
  const digest = digestOf(new Secret(await broker.workload(capsule, 'alike', 'app')));
  const tenants = createTenants(broker.context.connections.lookup, 1_000, evidence());
  const alike = Buffer.from(digest);
  alike[31] = (alike[31] ?? 0) ^ 1;
  expect(await tenants.byDigest(alike)).toBeUndefined();
  expect((await tenants.byHandle(digest.subarray(0, 16)))?.app).toBe('app');
  expect(await tenants.byDigest(digestOf(newToken('osw')))).toBeUndefined();
});

test('one and many are found by the index of principals, however many Assistants there are', async () => {
  const { lookup } = fixture.broker.context.connections;
  const { session, asked } = counted();
  const tenants = createTenants(session, 1_000, evidence());
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
    // The epoch is one row in all.
    expect(plan.replaceAll(/Seq Scan on epoch\b/g, '')).not.toContain('Seq Scan');
  }
});
