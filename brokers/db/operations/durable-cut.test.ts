import { expect, it } from 'vitest';
import { connect, intoDatabase, openFixture, query, sqlstate } from '../testing/postgres.ts';

it('after an answer that a drop continues, access stays cut after a crash of the server', async () => {
  // A commit that no caller waits for reaches the disk only after ten seconds there.
  const fixture = await openFixture(
    { durable: true, settings: { wal_writer_delay: '10s' } },
    { environment: { SPARE_DATABASES: '1' } },
  );
  try {
    const capsule = await fixture.broker.capsule('home');
    const url: string = (await capsule.create('home', 'app')).json.database_url;
    const name = new URL(url).pathname.slice(1);
    await query(fixture.server.superuserUrl, 'CHECKPOINT');
    await connect(intoDatabase(fixture.server.superuserUrl, name));
    expect((await capsule.drop('home', 'app')).status).toBe(503);
    await fixture.server.kill();
    await fixture.server.start();
    expect(await sqlstate(url)).not.toBe('ok');
    const [row] = await fixture.registry('SELECT state FROM broker.database WHERE name = $1', [name]);
    expect(row).toEqual({ state: 'dropping' });
  } finally {
    await fixture.close();
  }
});
