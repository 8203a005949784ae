import { randomBytes } from 'node:crypto';
import type { Socket } from 'node:net';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../../testing/eventually.ts';
import type { PostgresMajor } from '../../../testing/postgres/binaries.ts';
import type { Client, Reply } from '../testing/broker.ts';
import { census } from '../testing/census.ts';
import { connect, type Fixture, openFixture, query, sqlstate } from '../testing/postgres.ts';

/** What a tenant can do with only its own URL to keep its sessions or to block others. */
describe.each<PostgresMajor>(['15', '18'])('on PostgreSQL %s', (major) => {
  let fixture: Fixture;
  const open: pg.Client[] = [];
  beforeAll(async () => {
    fixture = await openFixture({ major }, { environment: { STALLED_CLIENT_SECONDS: '1' } });
  });
  afterEach(async () => {
    for (const client of open.splice(0)) await client.end().catch(() => undefined);
  });
  afterAll(() => fixture.close());

  interface Tenant {
    readonly capsule: string;
    readonly caller: Client;
    readonly url: string;
    readonly name: string;
    drop(): Promise<Reply>;
    create(app?: string): Promise<Reply>;
  }

  const nameIn = (url: string) => new URL(url).pathname.slice(1);

  async function tenant(): Promise<Tenant> {
    const capsule = `t${randomBytes(6).toString('hex')}`;
    const caller = await fixture.broker.capsule(capsule);
    const url: string = (await caller.create(capsule, 'app')).json.database_url;
    return {
      capsule,
      caller,
      url,
      name: nameIn(url),
      drop: () => caller.drop(capsule, 'app'),
      create: (app = 'app') => caller.create(capsule, app),
    };
  }

  /** A session that begins a transaction, does this in it and stays in it. */
  async function stay(url: string, ...acts: readonly string[]): Promise<pg.Client> {
    const client = await connect(url);
    open.push(client);
    await client.query('SET idle_in_transaction_session_timeout = 0');
    await client.query('BEGIN');
    for (const act of acts) await client.query(act);
    return client;
  }

  const metric = async (name: string) => {
    const text = await (await fetch(`http://127.0.0.1:${fixture.broker.metricsPort}/metrics`)).text();
    return Number(new RegExp(`^${name}(?:{[^}]*})? (.*)$`, 'm').exec(text)?.[1]);
  };

  describe('a tenant that locks its own', () => {
    it.each([
      ['role', (name: string) => `ALTER ROLE ${name} PASSWORD 'mine'`],
      ['database', (name: string) => `GRANT CONNECT ON DATABASE ${name} TO ${name}`],
      ['settings', (name: string) => `ALTER ROLE ${name} IN DATABASE ${name} SET work_mem = '1MB'`],
    ])('%s is still ended by a drop', async (_, act) => {
      const own = await tenant();
      const held = await stay(own.url, act(own.name));
      expect(await own.drop()).toMatchObject({ status: 200, json: { dropped: own.name } });
      expect(await sqlstate(own.url)).not.toBe('ok');
      await expect(held.query('SELECT 1')).rejects.toThrow();
    });

    it('role does not prevent its password from being set again', async () => {
      const own = await tenant();
      await stay(own.url, `ALTER ROLE ${own.name} PASSWORD 'mine'`);
      expect((await own.create()).json).toMatchObject({ database_url: own.url });
      expect(await sqlstate(own.url)).toBe('ok');
    });

    it('role in five sessions that are always replaced does not prevent it either', async () => {
      const own = await tenant();
      let stop = false;
      let acts = 0;
      const fighting = Array.from({ length: 8 }, async (_, one) => {
        while (!stop) {
          const session = await connect(own.url).catch(() => undefined);
          if (session === undefined) {
            if ((await sqlstate(own.url)) === '55000') return;
            continue;
          }
          try {
            for (; !stop; acts += 1)
              await session.query(
                one % 2 === 0
                  ? `ALTER ROLE ${own.name} PASSWORD '${new URL(own.url).password}'`
                  : `GRANT CONNECT ON DATABASE ${own.name} TO ${own.name}`,
              );
          } catch {
            // The others changed the same row, or the session was ended: it comes again.
          }
          await session.end().catch(() => undefined);
        }
      });
      await eventually(() => acts > 50, { what: 'the fight to be under way' });
      try {
        expect(await own.drop()).toMatchObject({ status: 200, json: { dropped: own.name } });
        expect(await sqlstate(own.url)).not.toBe('ok');
      } finally {
        stop = true;
        await Promise.all(fighting);
      }
    });
  });

  describe('a tenant that changes its own', () => {
    it.each([
      ['role', (name: string) => `ALTER ROLE ${name} PASSWORD NULL`],
      ['database', (name: string) => `GRANT CONNECT ON DATABASE ${name} TO ${name}`],
    ])('%s in a loop inside the server is still ended by a drop', async (_, act) => {
      const own = await tenant();
      const changing = await connect(own.url);
      open.push(changing);
      const ended = expect(
        changing.query(`DO $$ BEGIN LOOP EXECUTE '${act(own.name)}'; COMMIT; END LOOP; END $$`),
      ).rejects.toThrow();
      expect(await own.drop()).toMatchObject({ status: 200, json: { dropped: own.name } });
      await ended;
      expect(await sqlstate(own.url)).not.toBe('ok');
    });
  });

  describe('a tenant that locks what is not its own', () => {
    it('every database of the server does not prevent a database for another Capsule', async () => {
      const hostile = await tenant();
      await fixture.broker.round('spares');
      const names = await fixture.sql<{ datname: string }>('SELECT datname FROM pg_database');
      await stay(
        hostile.url,
        ...names.map(
          ({ datname }) => `ALTER ROLE ${hostile.name} IN DATABASE ${datname} SET work_mem = '1MB'`,
        ),
      );
      expect((await tenant()).url).toMatch(/^postgresql/);
    });

    it("a stranger's database does not keep it from being dropped", async () => {
      const [hostile, victim] = [await tenant(), await tenant()];
      await stay(hostile.url, `ALTER ROLE ${hostile.name} IN DATABASE ${victim.name} SET work_mem = '1MB'`);
      expect((await victim.drop()).status).toBe(200);
      expect(await sqlstate(hostile.url)).toBe('ok');
    });

    it("a stranger's role does not keep it from being dropped", async () => {
      const [hostile, victim] = [await tenant(), await tenant()];
      await stay(hostile.url, 'CREATE TABLE t (n int)', `GRANT SELECT ON t TO ${victim.name}`);
      expect((await victim.drop()).status).toBe(200);
    });
  });

  describe("a tenant that names a stranger's role", () => {
    it.each([
      ['a grant on a table', (to: string) => `CREATE TABLE t (n int); GRANT SELECT ON t TO ${to}`],
      ['a grant on a column', (to: string) => `CREATE TABLE t (n int); GRANT SELECT (n) ON t TO ${to}`],
      ['a grant on a schema', (to: string) => `CREATE SCHEMA s; GRANT USAGE ON SCHEMA s TO ${to}`],
      ['default privileges', (to: string) => `ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO ${to}`],
      ['a large object', (to: string) => `SELECT lo_create(7); GRANT SELECT ON LARGE OBJECT 7 TO ${to}`],
      ['a policy', (to: string) => `CREATE TABLE t (n int); CREATE POLICY p ON t TO ${to}`],
      ['a type', (to: string) => `CREATE TYPE e AS ENUM ('a'); GRANT USAGE ON TYPE e TO ${to}`],
    ])('by %s does not keep its database, and the remaining role can do nothing', async (_, act) => {
      const [hostile, victim] = [await tenant(), await tenant()];
      await query(hostile.url, act(victim.name));
      expect(await victim.drop()).toMatchObject({ status: 200, json: { dropped: victim.name } });
      expect((await victim.drop()).json).toMatchObject({ already_absent: true });
      const left = await fixture.sql(
        'SELECT rolcanlogin AS login, rolpassword IS NULL AS silent FROM pg_authid WHERE rolname = $1',
        [victim.name],
      );
      expect(left).toEqual([{ login: false, silent: true }]);
      expect(await fixture.sql('SELECT 1 FROM pg_database WHERE datname = $1', [victim.name])).toEqual([]);
      expect(await census(fixture.server.superuserUrl)).toEqual([]);
      // The name belonged to a dropped database, and the next one has another name.
      expect(new URL((await victim.create()).json.database_url).pathname.slice(1)).not.toBe(victim.name);
      await fixture.broker.round('leftover roles');
      expect(await metric('space_db_leftover_roles')).toBe(1);
      expect(fixture.broker.log.join('')).toContain(`"culprit":"${hostile.capsule}/app"`);
      expect((await victim.caller.dropAll(victim.capsule)).status).toBe(200);

      expect((await hostile.drop()).status).toBe(200);
      await fixture.broker.round('leftover roles');
      expect(await metric('space_db_leftover_roles')).toBe(0);
      expect(await fixture.sql('SELECT 1 FROM pg_roles WHERE rolname = $1', [victim.name])).toEqual([]);
      expect(await census(fixture.server.superuserUrl)).toEqual([]);
    });

    it.each([
      ['a membership', (self: string, to: string) => `GRANT ${self} TO ${to}`],
      ['a parameter', (_: string, to: string) => `GRANT SET ON PARAMETER log_statement TO ${to}`],
      ['a comment', (_: string, to: string) => `COMMENT ON ROLE ${to} IS 'mine'`],
      ['a label', (_: string, to: string) => `SECURITY LABEL ON ROLE ${to} IS 'mine'`],
      ['an owner', (_: string, to: string) => `CREATE TABLE t (n int); ALTER TABLE t OWNER TO ${to}`],
      ['its database', (self: string, to: string) => `GRANT CONNECT ON DATABASE ${self} TO ${to}`],
      [
        'a mapping',
        (_: string, to: string) => `CREATE FOREIGN DATA WRAPPER w; CREATE USER MAPPING FOR ${to} SERVER w`,
      ],
    ])('by %s has no effect', async (_, act) => {
      const [hostile, victim] = [await tenant(), await tenant()];
      await query(hostile.url, act(hostile.name, victim.name)).catch(() => undefined);
      expect((await victim.drop()).status).toBe(200);
      expect(await fixture.sql('SELECT 1 FROM pg_roles WHERE rolname = $1', [victim.name])).toEqual([]);
    });
  });

  describe('a client that has stopped responding', () => {
    const waits = (name: string, event: string, state = '%') =>
      eventually(
        async () => {
          const rows = await fixture.sql(
            'SELECT 1 FROM pg_stat_activity WHERE usename = $1 AND wait_event = $2 AND state LIKE $3',
            [name, event, state],
          );
          return rows.length > 0;
        },
        { what: `${name} to wait in ${event}` },
      );

    /**
     * A drop of another Capsule beside a client that does this and stops. The server tells after some seconds whom it
     * waits for, so on a busy machine that may be what ends it: again, until it was its standing still.
     */
    async function isPutOut(stop: (hostile: Tenant, client: pg.Client) => Promise<Socket>): Promise<void> {
      for (let stalled = false; !stalled; ) {
        const [hostile, victim] = [await tenant(), await tenant()];
        const client = await connect(hostile.url);
        open.push(client);
        const stream = await stop(hostile, client);
        expect((await victim.drop()).status).toBe(200);
        expect((await victim.caller.dropAll(victim.capsule)).status).toBe(200);
        stream.destroy();
        stalled = fixture.broker.log.some((line) => line.includes(hostile.name) && line.includes('"stall"'));
      }
    }

    it('during a result does not delay the drop of another Capsule', async () => {
      await isPutOut(async (hostile, client) => {
        const { stream } = (client as unknown as { connection: { stream: Socket } }).connection;
        client.query("SELECT repeat('x', 1000) FROM generate_series(1, 1000000)").catch(() => undefined);
        stream.pause();
        await waits(hostile.name, 'ClientWrite');
        return stream;
      });
    });

    /** Beside a client that stops for the first time, one of whoever did it before, in a database of this Assistant. */
    async function isEndedEarlier(again: (known: Tenant) => Promise<string>): Promise<void> {
      const stopsReading = async (url: string) => {
        const client = await connect(url);
        open.push(client);
        const { stream } = (client as unknown as { connection: { stream: Socket } }).connection;
        client.query("SELECT repeat('x', 1000) FROM generate_series(1, 1000000)").catch(() => undefined);
        stream.pause();
        await waits(nameIn(url), 'ClientWrite');
        return stream;
      };
      const ends = () => fixture.broker.log.filter((line) => line.includes('"stall"'));
      const known = await tenant();
      for (let count = 0; count === 0; count = ends().filter((line) => line.includes(known.name)).length) {
        const stream = await stopsReading(known.url);
        await (await tenant()).drop();
        stream.destroy();
      }
      // A client may still have room for a part of its answer, so that a drop does not wait for it. And the server tells after some
      // seconds whom a drop waits for, which may come first on a busy machine. In both cases: again.
      let [told, expected]: [string[], string] = [[], ''];
      for (let waited = 0; told.length === 0 && waited < 10; ) {
        const before = fixture.broker.log.length;
        const first = await tenant();
        const url = await again(known);
        expected = nameIn(url);
        const streams = [await stopsReading(first.url), await stopsReading(url)];
        expect((await (await tenant()).drop()).status).toBe(200);
        for (const stream of streams) stream.destroy();
        await first.drop();
        const ended = fixture.broker.log.slice(before).filter((line) => line.includes('session ended'));
        const [one, other] = ended.map((line) => Date.parse(JSON.parse(line).time));
        if (one === undefined || other === undefined) continue;
        // What one look ends has no order; two looks are twice as far apart as this.
        if (!ended.some((line) => line.includes('"unheeding"')) && other - one > 25) told = ended;
        waited += 1;
      }
      expect(told[0]).toContain(expected);
    }

    it('is ended earlier than one that does it for the first time, if it did it recently', () =>
      isEndedEarlier(async ({ url }) => url));

    it('is ended earlier if another Assistant of its Capsule did it recently', async () => {
      let others = 0;
      await isEndedEarlier(async ({ capsule, caller, create }) => {
        if (others > 0) await caller.drop(capsule, `other-${others}`);
        others += 1;
        return (await create(`other-${others}`)).json.database_url;
      });
    });

    it('during a COPY does not delay the drop of another Capsule', async () => {
      await isPutOut(async (hostile, client) => {
        await client.query('CREATE TABLE t (n int)');
        const { connection } = client as unknown as {
          connection: { sendCopyFail: () => void; stream: Socket };
        };
        // The driver would end it at once.
        connection.sendCopyFail = () => undefined;
        client.query('COPY t FROM STDIN').catch(() => undefined);
        await waits(hostile.name, 'ClientRead', 'active');
        return connection.stream;
      });
    });
  });

  describe('logins that stop half-way', () => {
    it("again and again delay another Capsule's drop and do not keep it from ending", async () => {
      const hostile = await tenant();
      const victim = await tenant();
      let stop = false;
      let begun = 0;
      const halfWay = Array.from({ length: 8 }, async () => {
        while (!stop) {
          const client = new pg.Client({ connectionString: hostile.url });
          const over = new Promise((resolve) => client.once('end', resolve));
          client.on('error', () => undefined);
          // It says who it is, is asked for its proof, and says nothing more.
          const { connection } = client as unknown as {
            connection: { sendSCRAMClientFinalMessage: () => void };
          };
          connection.sendSCRAMClientFinalMessage = () => {
            begun += 1;
          };
          client.connect().catch(() => undefined);
          await over;
        }
      });
      await eventually(() => begun >= 8, { what: 'logins to stop half-way' });
      expect(await victim.drop()).toMatchObject({ status: 200, json: { dropped: victim.name } });
      expect(await sqlstate(victim.url)).not.toBe('ok');
      stop = true;
      await Promise.all(halfWay);
    });
  });
});
