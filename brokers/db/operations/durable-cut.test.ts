import { expect, it } from 'vitest';
import { connect, intoDatabase, query, setStage, sqlstate } from '../testing/postgres.ts';

it('who was told that a drop goes on later finds access cut after a crash of the server', async () => {
  // What nobody waits for stays off the disk for ten seconds there.
  const stage = await setStage(
    { durable: true, settings: { wal_writer_delay: '10s' } },
    { environment: { SPARE_DATABASES: '1' } },
  );
  try {
    const capsule = await stage.broker.capsule('home');
    const url: string = (await capsule.create('home', 'app')).json.database_url;
    const name = new URL(url).pathname.slice(1);
    await query(stage.server.superuserUrl, 'CHECKPOINT');
    await connect(intoDatabase(stage.server.superuserUrl, name));
    expect((await capsule.drop('home', 'app')).status).toBe(503);
    await stage.server.kill();
    await stage.server.start();
    expect(await sqlstate(url)).not.toBe('ok');
    const [row] = await stage.registry('SELECT state FROM broker.database WHERE name = $1', [name]);
    expect(row).toEqual({ state: 'dropping' });
  } finally {
    await stage.close();
  }
});
