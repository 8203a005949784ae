import { afterAll, beforeAll, expect, it } from 'vitest';
import { eventually } from '../../../testing/eventually.ts';
import { connect, type Fixture, openFixture } from '../testing/postgres.ts';
import { dropDatabase } from './finish.ts';

let fixture: Fixture;
beforeAll(async () => {
  fixture = await openFixture();
});
afterAll(() => fixture?.close());

const exists = async (name: string) =>
  (await fixture.sql('SELECT FROM pg_database WHERE datname = $1', [name])).length === 1;

it('a drop that takes longer than its caller waits continues until it is complete', async () => {
  const home = await fixture.broker.capsule('home');
  const url: string = (await home.create('home', 'app')).json.database_url;
  const other: string = (await home.create('home', 'other')).json.database_url;
  const name = new URL(url).pathname.slice(1);
  // Every drop waits until each process of the server has reacted to it, and this one does not react.
  const client = await connect(other);
  const [row] = (await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')).rows;
  process.kill(row!.pid, 'SIGSTOP');
  try {
    await expect(dropDatabase(fixture.broker.context, name, 300)).rejects.toMatchObject({
      code: 'unavailable',
      retryAfter: 10,
    });
    expect(await exists(name)).toBe(true);
  } finally {
    process.kill(row!.pid, 'SIGCONT');
  }
  await eventually(async () => !(await exists(name)), { what: 'the drop to end by itself' });
  expect((await home.drop('home', 'app')).status).toBe(200);
});
