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

  it('leave the preflight no warnings', () => {
    expect(fixture.broker.log.filter((line) => line.includes('preflight'))).toEqual([]);
  });

  it('end connections that do not log in', async () => {
    const socket = connectSocket({ port: fixture.server.port, host: '127.0.0.1' });
    socket.on('error', () => undefined);
    socket.resume();
    await once(socket, 'close');
  });

  it('refuse a broker that is a member of a superuser, until that is revoked as the message says', async () => {
    await fixture.sql('CREATE ROLE "the boss" SUPERUSER; GRANT "the boss" TO space_broker');
    await expect(fixture.replica()).rejects.toThrow(/REVOKE "the boss" FROM "space_broker"/);
    await fixture.sql('REVOKE "the boss" FROM "space_broker"');
    await (await fixture.replica()).stop();
  });

  it('keep the memory that a query shares with its workers out of /dev/shm, which has 64 MiB in a container', async () => {
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

  it('keep files of the log to use them again, so that commits do not wait until new ones are filled with zeros', async () => {
    await fixture.sql(
      "SELECT count(pg_logical_emit_message(false, 'test', repeat('x', 15000000))) FROM generate_series(1, 20)",
    );
    // As in a calm time: each checkpoint expects less until the next one.
    for (let calm = 0; calm < 40; calm += 1) {
      await fixture.sql('SELECT pg_switch_wal()');
      await fixture.sql('CHECKPOINT');
    }
    const [row] = await fixture.sql<{ files: number }>('SELECT count(*)::int AS files FROM pg_ls_waldir()');
    expect(row?.files).toBeGreaterThanOrEqual(20);
  });

  it('are reported by name if they are missing, with SQL that repairs them', async () => {
    const wrong = {
      temp_file_limit: '-1',
      tcp_user_timeout: '0',
      autovacuum: 'off',
      max_wal_size: '64MB',
      ...(Number(major) >= 17 ? { transaction_timeout: '0' } : {}),
    };
    const names = Object.keys(wrong).sort();
    const now = () =>
      fixture.sql<{ name: string; setting: string }>(
        'SELECT name, setting FROM pg_settings WHERE name = ANY ($1) ORDER BY name',
        [names],
      );
    const before = await now();
    const told = async () => {
      const broker = await fixture.replica();
      await broker.stop();
      return broker.log
        .filter((line) => line.includes('"preflight"'))
        .map((line) => String(JSON.parse(line).finding))
        .sort();
    };
    for (const [name, value] of Object.entries(wrong))
      await fixture.sql(`ALTER SYSTEM SET ${name} = '${value}'`);
    await fixture.sql('SELECT pg_reload_conf()');
    await eventually(async () => (await now()).every((one, i) => one.setting !== before[i]?.setting), {
      what: 'the settings',
    });
    const findings = await told();
    expect(findings.map((finding) => finding.split(' ')[0])).toEqual(names);
    for (const finding of findings) await fixture.sql(/ALTER SYSTEM .*$/.exec(finding)?.[0] ?? '');
    await fixture.sql('SELECT pg_reload_conf()');
    await eventually(async () => JSON.stringify(await now()) === JSON.stringify(before), {
      what: 'them again',
    });
    expect(await told()).toEqual([]);
  });
});
