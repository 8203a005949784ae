import { newToken } from '@space/broker-kit';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { eventually } from '../../../testing/eventually.ts';
import { connect, type Fixture, openFixture, query } from '../testing/postgres.ts';

let fixture: Fixture;
beforeAll(async () => {
  // Less what is kept for brokers and superuser, 40 for Assistants.
  fixture = await openFixture({ settings: { max_connections: '75' } });
});
afterAll(() => fixture.close());

it('a Capsule is promised three quarters of the connections at most, and others still get databases', async () => {
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

it('a tenant that changes its own database without end keeps nobody from limiting its connections', async () => {
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
    await query(
      fixture.server.superuserUrl,
      'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1',
      [name],
    );
    await Promise.all(changing);
  }
  expect([...statuses]).toEqual([200]);
});
