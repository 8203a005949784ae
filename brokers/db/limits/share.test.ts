import { newToken } from '@space/broker-kit';
import type pg from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { eventually } from '../../../testing/eventually.ts';
import type { Client } from '../testing/broker.ts';
import { connect, type Fixture, openFixture, query } from '../testing/postgres.ts';

let fixture: Fixture;
const PROMISED = 40;
beforeAll(async () => {
  // 35 are kept free of Assistants, and the brokers hold 30 at most beside those.
  fixture = await openFixture({ settings: { max_connections: `${PROMISED + 65}` } });
});
afterAll(() => fixture.close());

it('Assistants get all promised connections, and the brokers have theirs in addition', async () => {
  const held: pg.Client[] = [];
  const owners = new Map<string, Client>();
  try {
    for (const [capsule, apps] of [
      ['holds', 6],
      ['too', 2],
    ] as const) {
      const owner = await fixture.broker.capsule(capsule);
      owners.set(capsule, owner);
      for (let i = 0; i < apps; i += 1) {
        const { database_url: url } = (await owner.create(capsule, `app${i}`)).json;
        for (let n = 0; n < 5; n += 1) held.push(await connect(url));
      }
    }
    expect(held).toHaveLength(PROMISED);
    const replica = await fixture.replica();
    const calm = await replica.capsule('calm');
    expect((await calm.dropAll('calm')).status).toBe(200);
    await replica.stop();
  } finally {
    await Promise.all(held.map((one) => one.end()));
    for (const [capsule, owner] of owners) await owner.dropAll(capsule);
  }
});

it('a Capsule is promised at most three quarters of the connections, and others still get databases', async () => {
  const hoarder = await fixture.broker.capsule('hoarder');
  const statuses: number[] = [];
  for (let i = 0; i < 7; i += 1) statuses.push((await hoarder.create('hoarder', `app${i}`)).status);
  expect(statuses).toEqual([200, 200, 200, 200, 200, 200, 507]);
  const quiet = await fixture.broker.capsule('quiet');
  expect((await quiet.create('quiet', 'app')).status).toBe(200);
  const limits = (capsule_id: string, connections: number) =>
    fixture.broker.provisioner.post('/v1/capsules/limits', { capsule_id, connections });
  expect((await limits('hoarder', 6)).status).toBe(507);
  expect((await hoarder.dropAll('hoarder')).status).toBe(200);
  expect((await limits('quiet', 35)).status).toBe(507);
  expect((await limits('quiet', 30)).status).toBe(200);
});

it('a lower limit of connections ends sessions beyond it, since others are promised what it gives back', async () => {
  const owner = await fixture.broker.capsule('shrinks');
  const { database_url: url } = (await owner.create('shrinks', 'app')).json;
  const [idle, first, busy, newest] = [
    await connect(url),
    await connect(url),
    await connect(url),
    await connect(url),
  ];
  for (const one of [newest, busy, first]) await one.query('BEGIN');
  // Idle ones first, then the newest.
  const gone = [idle, newest].map((one) => new Promise<void>((resolve) => one.once('end', () => resolve())));
  const limits = () =>
    fixture.broker.provisioner.post('/v1/capsules/limits', { capsule_id: 'shrinks', connections: 2 });
  expect((await limits()).status).toBe(200);
  await Promise.all(gone);
  expect((await limits()).status).toBe(200);
  for (const one of [first, busy]) await one.query('COMMIT');
  await Promise.all([idle, first, busy, newest].map((one) => one.end()));
  await owner.dropAll('shrinks');
});

it('a tenant that changes its own database in a loop cannot prevent the limit of its connections', async () => {
  const principal = newToken('dbp').reveal();
  await fixture.broker.provisioner.provision('restless', principal);
  const url: string = (await fixture.broker.as(principal).create('restless', 'app')).json.database_url;
  const name = new URL(url).pathname.slice(1);
  let stop = false;
  let begun = 0;
  const changing = Array.from({ length: 3 }, async () => {
    while (!stop) {
      const client = await connect(url).catch(() => undefined);
      begun += 1;
      await client
        ?.query(
          `DO $$ BEGIN LOOP BEGIN EXECUTE 'GRANT CONNECT ON DATABASE ${name} TO ${name}';
             EXCEPTION WHEN OTHERS THEN NULL; END; COMMIT; END LOOP; END $$`,
        )
        .catch(() => undefined);
      await client?.end().catch(() => undefined);
    }
  });
  await eventually(() => begun > 2, { what: 'the changes' });
  const statuses = new Set<number>();
  try {
    for (let i = 0; i < 20; i += 1) {
      const wanted = { capsule_id: 'restless', connections: 3 + (i % 2) };
      statuses.add((await fixture.broker.provisioner.post('/v1/capsules/limits', wanted)).status);
    }
  } finally {
    stop = true;
    let ended = false;
    const all = Promise.all(changing).then(() => {
      ended = true;
    });
    // One of them may be logging in, and would go on without an end.
    const end = 'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1';
    await eventually(async () => (await query(fixture.server.superuserUrl, end, [name])) && ended, {
      what: 'the changes to end',
    });
    await all;
  }
  expect([...statuses]).toEqual([200]);
});
