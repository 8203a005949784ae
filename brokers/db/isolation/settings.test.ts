import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect as connectSocket } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../../testing/eventually.ts';
import type { PostgresMajor } from '../../../testing/postgres/binaries.ts';
import { connect, openFixture } from '../testing/postgres.ts';

/** The settings that the embedded server and a developer's have in common, on servers of each kind. */
describe.each<PostgresMajor>(['15', '17', '18'])('on PostgreSQL %s', (major) => {
  let fixture: Awaited<ReturnType<typeof openFixture>>;
  beforeAll(async () => {
    fixture = await openFixture({ major });
  });
  afterAll(() => fixture.close());

  it('leave the preflight nothing to say', () => {
    expect(fixture.broker.log.filter((line) => line.includes('preflight'))).toEqual([]);
  });

  it('put out whoever does not log in', async () => {
    const socket = connectSocket({ port: fixture.server.port, host: '127.0.0.1' });
    socket.on('error', () => undefined);
    socket.resume();
    await once(socket, 'close');
  });

  it('keep a broker out that is a member of a superuser, until that is revoked as it says', async () => {
    await fixture.sql('CREATE ROLE "the boss" SUPERUSER; GRANT "the boss" TO space_broker');
    await expect(fixture.replica()).rejects.toThrow(/REVOKE "the boss" FROM "space_broker"/);
    await fixture.sql('REVOKE "the boss" FROM "space_broker"');
    await (await fixture.replica()).stop();
  });

  it('keep what a query shares with its helpers out of /dev/shm, which a container has 64 MiB of', async () => {
    const session = await connect(fixture.server.superuserUrl);
    await session.query(`CREATE TABLE wide AS SELECT generate_series(1, 100000) AS i; ANALYZE wide;
      SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;
      SET max_parallel_workers_per_gather = 2; SET enable_nestloop = off; SET enable_mergejoin = off`);
    const [row] = (await session.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')).rows;
    const maps = () => readFileSync(`/proc/${row?.pid}/maps`, 'utf8');
    const asleep = session.query('SELECT pg_sleep(600) FROM wide a JOIN wide b USING (i) LIMIT 1');
    asleep.catch(() => undefined);
    await eventually(() => /pg_dynshmem|\/dev\/shm\/PostgreSQL/.test(maps()), { what: 'what they share' });
    expect(maps()).not.toMatch(/\/dev\/shm\/PostgreSQL/);
    await fixture.sql('SELECT pg_terminate_backend($1)', [row?.pid]);
    await expect(asleep).rejects.toThrow();
  });

  it('are told by name where they are missing, and the SQL that is told mends them', async () => {
    const set = async (statement: string, to: string) => {
      await fixture.sql(statement);
      await fixture.sql('SELECT pg_reload_conf()');
      const now = async () =>
        (await fixture.sql<{ now: string }>("SELECT current_setting('temp_file_limit') AS now"))[0];
      await eventually(async () => (await now())?.now === to, { what: 'the setting' });
    };
    await set('ALTER SYSTEM SET temp_file_limit = -1', '-1');
    const told = async () => {
      const broker = await fixture.replica();
      await broker.stop();
      return broker.log
        .filter((line) => line.includes('"preflight"'))
        .map((line) => String(JSON.parse(line).finding));
    };
    const [finding, ...more] = await told();
    expect(more).toEqual([]);
    expect(finding).toMatch(/^temp_file_limit should be/);
    await set(/ALTER SYSTEM .*$/.exec(finding ?? '')?.[0] ?? '', '1GB');
    expect(await told()).toEqual([]);
  });
});
