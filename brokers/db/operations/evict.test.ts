import { execFileSync } from 'node:child_process';
import type pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../../testing/eventually.ts';
import { COMMANDS } from '../commands.ts';
import { lockDatabase } from '../registry/rows.ts';
import type { Client } from '../testing/broker.ts';
import {
  connect,
  type Fixture,
  intoDatabase,
  openFixture,
  query,
  sqlstate,
  UNINTERRUPTIBLE,
} from '../testing/postgres.ts';
import { ensureDatabase } from './ensure.ts';

/** Rotations that end all sessions, while one session cannot be ended. */
let fixture: Fixture;
let beforeReopen: () => void = () => undefined;
beforeAll(async () => {
  const failpoint = (name: string) => {
    if (name === 'evict:before-reopen') beforeReopen();
  };
  // No sweep ends what an eviction has left.
  fixture = await openFixture({}, { failpoint, environment: { SIZE_INTERVAL_MS: '1000000' } });
});
afterAll(() => fixture.close());

const asThief = (url: string) => {
  const other = new URL(url);
  other.password = 'thief';
  return other.href;
};

describe('a thief', () => {
  let id = 0;
  let capsule: Client;
  let stolen: string;
  const create = () => capsule.create(`robbed${id}`, 'app');
  async function begin(): Promise<pg.Client> {
    id += 1;
    capsule = await fixture.broker.capsule(`robbed${id}`);
    stolen = (await create()).json.database_url;
    const thief = await connect(stolen);
    await COMMANDS['rotate']!.run(
      fixture.broker.servers,
      'a'.repeat(32),
      [`robbed${id}`, 'app', '--end-sessions'],
      async () => '',
    );
    return thief;
  }
  /** A session that no broker can end stands for one that computes what nothing interrupts. */
  async function occupy() {
    const client = await connect(intoDatabase(fixture.server.superuserUrl, new URL(stolen).username));
    const { rows } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
    return { client, pid: rows[0]!.pid };
  }
  async function isOut(after: string): Promise<void> {
    for (const url of [stolen, asThief(stolen)]) expect(await sqlstate(url)).toBe('28P01');
    expect(await sqlstate(after)).toBe('ok');
  }

  it('that changes its password in a loop does not come in again before the session has ended', async () => {
    const thief = await begin();
    const { client } = await occupy();
    const { username: name } = new URL(stolen);
    const changing = thief.query(
      `DO $$ BEGIN LOOP EXECUTE 'ALTER ROLE ${name} PASSWORD ''thief'''; COMMIT; END LOOP; END $$`,
    );
    const gone = expect(changing).rejects.toThrow();
    expect((await create()).status).toBe(503);
    await gone;
    // It may have changed it once more in its last moment.
    await fixture.sql(`ALTER ROLE ${name} PASSWORD 'thief'`);
    const rounds = async () => {
      for (const round of ['drift', 'sizes']) await fixture.broker.round(round);
    };
    await rounds();
    // Nor does an administrator let it in who opens the Capsule meanwhile.
    await COMMANDS['open']!.run(fixture.broker.servers, 'b'.repeat(32), [`robbed${id}`], async () => '');
    for (const url of [stolen, asThief(stolen)]) expect(await sqlstate(url)).not.toBe('ok');
    await client.end();
    const after = await create();
    expect(after.status).toBe(200);
    await rounds();
    await isOut(after.json.database_url);
    await thief.end().catch(() => undefined);
  });

  it('that changes its password while the session ends does not come in with it', async () => {
    const thief = await begin();
    const { client, pid } = await occupy();
    const { username: name } = new URL(stolen);
    beforeReopen = () => {
      beforeReopen = () => undefined;
      const change = `const { Client } = require('pg');
        const client = new Client(process.env.URL);
        client.connect().then(() => client.query("ALTER ROLE ${name} PASSWORD 'thief'")).then(() => client.end());`;
      const env = { ...process.env, URL: fixture.server.superuserUrl };
      execFileSync(process.execPath, ['-e', change], { env });
      process.kill(pid, 'SIGTERM');
    };
    const after = await create();
    expect(after.status).toBe(200);
    await isOut(after.json.database_url);
    for (const one of [client, thief]) await one.end().catch(() => undefined);
  });

  it('that computes what nothing interrupts does not come in again, and the rotation ends when that is over', async () => {
    const thief = await begin();
    let over = false;
    // Some ten seconds long.
    const computes = UNINTERRUPTIBLE.replaceAll('400000', '100000').replace('400001', '100001');
    const ended = thief
      .query(computes)
      .catch(() => undefined)
      .finally(() => {
        over = true;
      });
    const isComputing = async () => {
      const rows = await query(
        fixture.server.superuserUrl,
        "SELECT FROM pg_stat_activity WHERE usename = $1 AND state = 'active'",
        [new URL(stolen).username],
      );
      return over || rows.length > 0;
    };
    await eventually(isComputing, { what: 'the computation' });
    let after = await create();
    if (!over) expect(after.status).toBe(503);
    expect(await sqlstate(stolen)).not.toBe('ok');
    await ended;
    const isRotated = async () => {
      after = await create();
      return after.status === 200;
    };
    await eventually(isRotated, { what: 'the new password' });
    await isOut(after.json.database_url);
    await thief.end().catch(() => undefined);
  });

  it('is out of a database that nobody can enter, should the broker die before it opens it again', async () => {
    const thief = await begin();
    const { username: name } = new URL(stolen);
    let seen = '';
    beforeReopen = () => {
      beforeReopen = () => undefined;
      const ask = `const { Client } = require('pg');
        const client = new Client(process.env.URL);
        const sessions = '(SELECT count(*)::int FROM pg_stat_activity WHERE usename = d.datname) AS sessions';
        client.connect()
          .then(() => client.query('SELECT datallowconn AS open, ' + sessions + ' FROM pg_database d WHERE datname = $1', ['${name}']))
          .then(({ rows }) => { console.log(JSON.stringify(rows)); return client.end(); });`;
      const env = { ...process.env, URL: fixture.server.superuserUrl };
      seen = execFileSync(process.execPath, ['-e', ask], { env, encoding: 'utf8' });
      throw new Error('died');
    };
    expect((await create()).status).toBe(500);
    expect(JSON.parse(seen)).toEqual([{ open: false, sessions: 0 }]);
    const after = await create();
    expect(after.status).toBe(200);
    await isOut(after.json.database_url);
    await thief.end().catch(() => undefined);
  });

  it('is put out by an attempt that cannot seize the database, before anything is opened', async () => {
    const thief = await begin();
    let ended = false;
    thief.once('end', () => {
      ended = true;
    });
    const { context } = fixture.broker;
    const workload = { capsule: `robbed${id}`, app: 'app' };
    const attempt = { passedOver: [], contested: false, occupied: true, take: () => undefined };
    const entry = {
      traceId: 'c'.repeat(32),
      operation: 'capsule.app.create',
      authority: 'capsule',
      ...workload,
    };
    await context.connections.transaction(async (session) => {
      const row = await lockDatabase(session, workload);
      await ensureDatabase(context, session, { workload, row, incarnation: 1, attempt, entry });
    });
    await eventually(() => ended, { what: 'the end of its session', within: 60_000 });
    expect((await create()).status).toBe(200);
  });

  it('that comes back and changes its password all the time is shut out while a session cannot be ended', async () => {
    const thief = await begin();
    const { client } = await occupy();
    const { username: name } = new URL(stolen);
    const change = `DO $$ BEGIN LOOP EXECUTE 'ALTER ROLE ${name} PASSWORD ''thief'''; COMMIT; END LOOP; END $$`;
    let over = false;
    const attack = async () => {
      for (let tries = 0; !over; tries += 1) {
        const again = await connect(tries % 2 === 0 ? stolen : asThief(stolen)).catch(() => undefined);
        await again?.query(change).catch(() => undefined);
        await again?.end().catch(() => undefined);
      }
    };
    const attacks = [attack(), attack(), attack()];
    try {
      expect((await create()).status).toBe(503);
      const open = await fixture.sql('SELECT FROM pg_database WHERE datname = $1 AND datallowconn', [name]);
      expect(open).toEqual([]);
    } finally {
      over = true;
      await client.end();
      await Promise.all(attacks);
    }
    const after = await create();
    expect(after.status).toBe(200);
    await isOut(after.json.database_url);
    await thief.end().catch(() => undefined);
  });
});
