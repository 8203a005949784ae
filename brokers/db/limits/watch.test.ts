import { newToken } from '@space/broker-kit';
import type pg from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../../testing/eventually.ts';
import type { PostgresMajor } from '../../../testing/postgres/binaries.ts';
import type { Client } from '../testing/broker.ts';
import { connect, type Fixture, intoDatabase, openFixture, sqlstate } from '../testing/postgres.ts';

/** Swallows every error that PL/pgSQL may, so that nothing but the end of its session ends it. */
const TAKE_LOCKS = (from: number) => `DO $$ DECLARE i bigint := ${from}; BEGIN LOOP
  i := i + 1; BEGIN PERFORM pg_advisory_lock(i); EXCEPTION WHEN OTHERS THEN NULL; END; END LOOP; END $$`;

/** Tables of one reader, and how many of them it makes or reads in one request. */
const TABLES = 800;
const AT_ONCE = 40;

describe.each<PostgresMajor>(['15', '17', '18'])('the watch, on PostgreSQL %s', (major) => {
  let fixture: Fixture;
  let capsule: Client;
  let url: string;
  const sessions: pg.Client[] = [];
  const session = async (to = url) => {
    const client = await connect(to);
    sessions.push(client);
    return client;
  };
  const ended = (client: pg.Client) => new Promise<void>((resolve) => client.once('end', resolve));
  const reasons = () =>
    fixture.broker.log.flatMap((line) => {
      const { msg, reason } = JSON.parse(line) as { msg?: string; reason?: string };
      return msg === 'session ended' && reason !== undefined ? [reason] : [];
    });

  beforeAll(async () => {
    const environment = { WATCH_INTERVAL_MS: '50', TRANSACTION_SECONDS: '6', IDLE_TRANSACTION_SECONDS: '2' };
    const settings = {
      max_connections: '90',
      max_pred_locks_per_transaction: '10',
      ...(major === '15' ? {} : { max_notify_queue_pages: '64' }),
    };
    fixture = await openFixture({ major, settings }, { environment });
    capsule = await fixture.broker.capsule('attacker');
    url = (await capsule.create('attacker', 'ledger')).json.database_url;
  });
  afterEach(async () => {
    for (const client of sessions.splice(0)) await client.end().catch(() => undefined);
  });
  afterAll(() => fixture.close());

  it('lets others provision, create and drop while one tenant keeps filling the lock table', async () => {
    let over = false;
    const attack = async (from: number) => {
      while (!over) {
        // Nobody can log in for a moment; that is the point of the attack.
        const client = await session().catch(() => undefined);
        if (client === undefined) continue;
        const gone = ended(client);
        await client.query(TAKE_LOCKS(from)).catch(() => undefined);
        await gone;
      }
    };
    const attackers = [attack(0), attack(10 ** 12)];
    // As the operator does: what cannot be done now is tried again.
    const insist = async (act: () => Promise<{ status: number }>) => {
      for (let tries = 0; tries < 100; tries += 1) {
        const { status } = await act();
        if (status === 200) return;
        expect(status).toBe(503);
      }
      throw new Error('was never served');
    };
    try {
      for (const n of [1, 2, 3]) {
        const before = reasons().length;
        await eventually(() => reasons().length > before, { what: 'the end of an attacker' });
        const principal = newToken('dbp').reveal();
        await insist(() => fixture.broker.provisioner.provision(`calm${n}`, principal));
        const calm = fixture.broker.as(principal);
        await insist(() => calm.create(`calm${n}`, 'ledger'));
        await insist(() => calm.drop(`calm${n}`, 'ledger'));
      }
    } finally {
      over = true;
      await Promise.all(attackers);
    }
    expect(new Set(reasons())).toEqual(new Set(['locks']));
    expect(fixture.broker.log.join('')).not.toContain('pg_advisory_lock');
  });

  it('ends an idle session that holds locks', async () => {
    const client = await session();
    const gone = ended(client);
    // On a busy machine it is ended before its statement is.
    await client
      .query('SELECT count(pg_advisory_lock(i)) FROM generate_series(1, 10001) i')
      .catch(() => undefined);
    await gone;
  });

  it('ends a session that fills the predicate lock table, and others continue', async () => {
    const other = (await capsule.create('attacker', 'other')).json.database_url;
    const [reads, calm] = [await session(), await session(other)];
    await calm.query('CREATE TABLE calm AS SELECT generate_series(1, 1000) AS i');
    // In short transactions, since one that makes all tables is ended for its age on a busy machine.
    for (let n = 0; n < TABLES; n += AT_ONCE)
      await reads.query(
        `DO $$ BEGIN FOR n IN ${n}..${n + AT_ONCE - 1} LOOP
           EXECUTE format('CREATE TABLE r%s AS SELECT 1 AS i', n); END LOOP; END $$`,
      );
    for (const one of [reads, calm]) await one.query("SET default_transaction_isolation = 'serializable'");
    /** Keeps an older transaction open, without which nothing of what was read is kept, until it is put out for its age. */
    const keep = async () => {
      const keeps = await session();
      await keeps.query('BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT count(*) FROM r0');
      return keeps;
    };
    const gone = ended(reads);
    const fill = async () => {
      let keeps = await keep();
      // Few round trips, so that the table fills before the keeper is ended, however slow the machine is.
      for (let n = 0; ; n = (n + AT_ONCE) % TABLES) {
        keeps = await keeps.query('SELECT 1').then(() => keeps, keep);
        await reads.query(Array.from({ length: AT_ONCE }, (_, i) => `SELECT FROM r${n + i}`).join('; '));
      }
    };
    await expect(fill()).rejects.toThrow();
    await gone;
    expect(reasons()).toContain('predicate_locks');
    await calm.query(
      'BEGIN; SELECT count(*) FROM calm WHERE i = 1; UPDATE calm SET i = 0 WHERE i = 2; COMMIT',
    );
  });

  it('ends a transaction that is too old, whatever the tenant’s settings', async () => {
    const client = await session();
    const gone = ended(client);
    await client.query('SET statement_timeout = 0');
    await expect(client.query('SELECT pg_sleep(3600)')).rejects.toThrow();
    await gone;
    await eventually(() => reasons().includes('transaction'), { what: 'the line of the log' });
  });

  it('ends a transaction that waits for its client, whatever the tenant’s settings', async () => {
    const client = await session();
    const gone = ended(client);
    await client.query('SET idle_in_transaction_session_timeout = 0; BEGIN');
    await gone;
    await eventually(() => reasons().includes('idle_in_transaction'), { what: 'the line of the log' });
  });

  it('ends no other session, and continues after its own session was ended or the server was unavailable', async () => {
    const own = await session();
    await own.query('SELECT count(pg_advisory_lock(i)) FROM generate_series(1, 9000) i');
    const inside = intoDatabase(fixture.server.superuserUrl, new URL(url).pathname.slice(1));
    const superuser = await session(inside);
    await superuser.query('BEGIN; SELECT count(pg_advisory_lock(i)) FROM generate_series(20001, 30002) i');
    const before = reasons().length;
    await fixture.sql(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'space-db-broker-watch'",
    );
    const idle = await session();
    const gone = ended(idle);
    await idle.query('SET idle_in_transaction_session_timeout = 0; BEGIN');
    await gone;
    await eventually(() => reasons().length > before, { what: 'the line of the log' });
    expect(reasons().slice(before)).toEqual(['idle_in_transaction']);
    await own.query('SELECT 1');
    await superuser.query('SELECT 1');
    await eventually(async () => (await sqlstate(url)) === 'ok', { what: 'a login' });
  });

  it.skipIf(major === '15')('ends the slowest reader of a long queue of notifications', async () => {
    const reader = await session();
    const gone = ended(reader);
    await reader.query('SET transaction_timeout = 0; LISTEN news');
    const before = reasons().length;
    const asleep = reader.query('SELECT pg_sleep(3600)').catch(() => undefined);
    const writer = await session();
    const write = () =>
      writer.query(`SELECT pg_notify('news', i || repeat('x', 7000)) FROM generate_series(1, 50) i`);
    await write();
    await gone;
    await asleep;
    await eventually(() => reasons().length > before, { what: 'the line of the log' });
    const written = () =>
      write().then(
        () => true,
        () => false,
      );
    await eventually(written, { what: 'room in the queue' });
  });
});
