import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statfsSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { connect as connectSocket } from 'node:net';
import { getPriority, setPriority, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type pg from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { makeAuthority } from '../../../testing/certificates.ts';
import { eventually } from '../../../testing/eventually.ts';
import { freePort } from '../../../testing/ports.ts';
import { postgresPrograms } from '../../../testing/postgres/binaries.ts';
import { connect, query, sqlstate, UNINTERRUPTIBLE } from '../testing/postgres.ts';

/** The entry point of the embedded server's image, on the same major version, as an unprivileged user. */

const NOBODY = 65_534;
/** The nice value that the guard gives a tenant that uses much processor time. */
const YIELDING = 10;
let directory: string;
let port: number;
let running: ChildProcess | undefined;

const data = () => join(directory, 'volume/data/17');
const log = () => readFileSync(join(directory, 'log'), 'utf8');
const url = (password: string, user = 'space_broker', database = 'space_registry') =>
  `postgresql://${user}:${password}@127.0.0.1:${port}/${database}`;
const setPassword = (password: string) => writeFileSync(join(directory, 'password'), password);

const asServer = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {};

function environment() {
  return {
    PATH: process.env['PATH'],
    PG_PROGRAMS: postgresPrograms('17'),
    PGDATA: data(),
    PASSWORD_FILE: join(directory, 'password'),
    OBJECTSTORE_PASSWORD_FILE: join(directory, 'objectstore-password'),
    TLS_DIRECTORY: join(directory, 'tls'),
    SOCKET_DIRECTORY: directory,
    LISTEN_ADDRESSES: '127.0.0.1',
    PORT: String(port),
    MAX_CONNECTIONS: '50',
    TMPDIR: directory,
    LOG: join(directory, 'log'),
    // The machine's own memory is no limit here.
    CGROUP_DIRECTORY: join(directory, 'cgroup'),
    DISK_RESERVE_MIB: '0',
  };
}

function start(changes: Readonly<Record<string, string>> = {}, fsync: 'on' | 'off' = 'off'): ChildProcess {
  const env = { ...environment(), ...changes };
  const script = `exec /bin/sh ${join(directory, 'image/entrypoint.sh')} -c fsync=${fsync} -c autovacuum_naptime=1s >>"$LOG" 2>&1`;
  running = spawn('/bin/sh', ['-c', script], {
    ...asServer,
    cwd: directory,
    env,
    stdio: 'ignore',
    detached: true,
  });
  // Who yields already is given no lower priority; only root may take that back, as where the tests themselves yield.
  if (getPriority() >= YIELDING && process.getuid?.() === 0) setPriority(running.pid ?? 0, 0);
  return running;
}

async function end(signal: NodeJS.Signals, child = running): Promise<void> {
  if (child === running) running = undefined;
  if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, 'exit');
  // As a container ends: all of it at once.
  if (signal === 'SIGKILL' && child.pid !== undefined) process.kill(-child.pid, signal);
  else child.kill(signal);
  await gone;
}

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'space-entrypoint-'));
  mkdirSync(join(directory, 'volume'));
  for (const file of readdirSync(import.meta.dirname).filter((name) => /\.(sh|pl|sql|conf)$/.test(name))) {
    cpSync(join(import.meta.dirname, file), join(directory, 'image', file));
  }
  chmodSync(directory, 0o755);
  if (process.getuid?.() === 0)
    for (const path of [directory, join(directory, 'volume')]) chownSync(path, NOBODY, NOBODY);
  port = await freePort();
});
afterEach(() => end('SIGINT'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

describe('the embedded server', () => {
  it.each(['', 'with space', "quo'te", 'new\nline'])(
    'does not start with the password %j',
    async (password) => {
      setPassword(password);
      expect((await once(start(), 'exit'))[0]).toBe(1);
      expect(existsSync(data())).toBe(false);
    },
  );

  it('repeats an interrupted first start, and then starts with all databases closed', async () => {
    setPassword('first_Password-1');
    start();
    await eventually(() => existsSync(`${data()}.draft/base`), { what: 'the draft' });
    await end('SIGKILL');
    expect(existsSync(join(data(), 'PG_VERSION'))).toBe(false);
    start();
    await eventually(async () => (await sqlstate(url('first_Password-1'))) === 'ok', { what: 'the server' });
    const [facts] = await query(
      url('first_Password-1'),
      `SELECT rolsuper, rolcreaterole, rolcreatedb, pg_has_role('pg_signal_backend', 'MEMBER') AS signal,
              pg_has_role('pg_use_reserved_connections', 'MEMBER') AS reserved,
              pg_has_role('pg_read_all_stats', 'MEMBER') AS stats,
              current_setting('max_prepared_transactions') AS prepared, current_setting('max_connections') AS connections,
              current_setting('authentication_timeout') AS login, current_setting('temp_file_limit') AS temporary,
              current_setting('data_checksums') AS checksums
       FROM pg_roles WHERE rolname = current_user`,
    );
    expect(facts).toEqual({
      rolsuper: false,
      rolcreaterole: true,
      rolcreatedb: true,
      signal: true,
      reserved: true,
      stats: true,
      prepared: '0',
      connections: '50',
      login: '5s',
      temporary: '1GB',
      checksums: 'on',
    });
    for (const database of ['postgres', 'template1']) {
      expect(await sqlstate(url('first_Password-1', 'space_broker', database))).toBe('42501');
    }
    expect(await sqlstate(url('first_Password-1', 'postgres', 'postgres'))).toBe('28000');
  });

  it('applies a changed password at its next start, also after a crash, and never logs one', async () => {
    setPassword('second_Password-2');
    start();
    await eventually(async () => (await sqlstate(url('second_Password-2'))) === 'ok', {
      what: 'the new password',
    });
    expect(await sqlstate(url('first_Password-1'))).toBe('28P01');
    await query(url('second_Password-2'), 'CREATE TABLE kept AS SELECT 1 AS n');
    await end('SIGKILL');
    setPassword('third_Password-3');
    start();
    await eventually(async () => (await sqlstate(url('third_Password-3'))) === 'ok', {
      what: 'the recovery',
    });
    expect(await query(url('third_Password-3'), 'SELECT n FROM kept')).toEqual([{ n: 1 }]);
    expect(log()).not.toMatch(/(first|second|third)_Password/);
  });

  it('starts after a crash, although the process id in its lock file exists: in a container it is always 1', async () => {
    start();
    await eventually(async () => (await sqlstate(url('third_Password-3'))) === 'ok', { what: 'the server' });
    const file = join(data(), 'postmaster.pid');
    const left = readFileSync(file, 'utf8');
    await end('SIGKILL');
    // Of the same user, as the entry point itself is in its container.
    const living = spawn('sleep', ['600'], { ...asServer, stdio: 'ignore' });
    try {
      writeFileSync(file, left.replace(/^\d+/, String(living.pid)));
      start();
      await eventually(async () => (await sqlstate(url('third_Password-3'))) === 'ok', {
        what: 'the recovery',
      });
      expect(await query(url('third_Password-3'), 'SELECT n FROM kept')).toEqual([{ n: 1 }]);
    } finally {
      living.kill('SIGKILL');
    }
  });

  it('waits while another server uses the data, and continues when the last process of that one has ended', async () => {
    const first = start();
    await eventually(async () => (await sqlstate(url('third_Password-3'))) === 'ok', { what: 'the server' });
    const others = { LOG: join(directory, 'log-of-the-other'), SOCKET_DIRECTORY: join(directory, 'volume') };
    const second = start(others);
    onTestFinished(() => end('SIGKILL', first));
    await eventually(
      () => existsSync(others.LOG) && readFileSync(others.LOG, 'utf8').includes('waiting for another server'),
      {
        what: 'the wait',
      },
    );
    expect(await query(url('third_Password-3'), 'SELECT n FROM kept')).toEqual([{ n: 1 }]);
    await end('SIGKILL', first);
    await eventually(async () => (await sqlstate(url('third_Password-3'))) === 'ok', {
      what: 'the other server',
    });
    expect(readFileSync(others.LOG, 'utf8')).not.toContain('another server uses');
    expect(second.exitCode).toBe(null);
  });

  it('creates a registry for the object store once its password is mounted, permanently and only for it', async () => {
    const own = (password: string, database = 'space_objectstore') =>
      sqlstate(url(password, 'space_objectstore', database));
    writeFileSync(join(directory, 'objectstore-password'), 'objects_Password-1');
    start();
    await eventually(async () => (await own('objects_Password-1')) === 'ok', {
      what: 'the registry of the object store',
    });
    for (const database of ['space_registry', 'postgres', 'template1'])
      expect(await own('objects_Password-1', database)).toBe('28000');
    expect(await sqlstate(url('third_Password-3', 'space_broker', 'space_objectstore'))).toBe('42501');
    await query(
      url('objects_Password-1', 'space_objectstore', 'space_objectstore'),
      'CREATE TABLE kept AS SELECT 1 AS n',
    );
    await end('SIGKILL');
    writeFileSync(join(directory, 'objectstore-password'), 'objects_Password-2');
    start();
    await eventually(async () => (await own('objects_Password-2')) === 'ok', {
      what: 'the changed password',
    });
    expect(await own('objects_Password-1')).toBe('28P01');
    expect(
      await query(url('objects_Password-2', 'space_objectstore', 'space_objectstore'), 'SELECT n FROM kept'),
    ).toEqual([{ n: 1 }]);
    expect(log()).not.toMatch(/objects_Password/);
  });

  it.skipIf(!existsSync('/usr/bin/psql'))(
    'archives after archive_timeout from its start on, without a reload of its settings',
    async () => {
      // Stands in for pgBackRest: it takes each file of the log that it is given.
      const archived = join(directory, 'archived');
      for (const [path, text] of [
        ['bin/pgbackrest', `#!/bin/sh\nfor file; do :; done\ncp "$file" "${archived}/"\n`],
        ['backup/access-key', 'access'],
        ['backup/secret-key', 'secret'],
        ['backup/postgres', 'passphrase'],
      ] as const) {
        mkdirSync(dirname(join(directory, path)), { recursive: true });
        writeFileSync(join(directory, path), text, { mode: 0o755 });
      }
      mkdirSync(archived);
      chmodSync(archived, 0o777);
      setPassword('third_Password-3');
      const withBackup = {
        PATH: `${join(directory, 'bin')}:${process.env['PATH']}`,
        PSQL: '/usr/bin/psql',
        BACKUP_DIRECTORY: join(directory, 'backup'),
        BACKUP_KEYS_DIRECTORY: join(directory, 'backup'),
        BACKUP_ARCHIVE_SECONDS: '1',
        BACKUP_S3_PREFIX: 'space',
        BACKUP_S3_BUCKET: 'backups',
        BACKUP_S3_HOST: 's3.test',
        BACKUP_S3_REGION: 'test',
        BACKUP_S3_URI_STYLE: 'path',
        BACKUP_S3_PORT: '443',
        BACKUP_KEEP_DAYS: '14',
        BACKUP_QUEUE_BYTES: '1GB',
      };
      // Without fsync, the server has started before its checkpointer begins to wait.
      start(withBackup, 'on');
      await eventually(async () => (await sqlstate(url('third_Password-3'))) === 'ok', {
        what: 'the server',
      });
      const [written] = await query<{ file: string }>(
        url('third_Password-3'),
        `WITH row AS (INSERT INTO kept VALUES (2) RETURNING n)
         SELECT pg_walfile_name(pg_current_wal_insert_lsn()) AS file FROM row`,
      );
      // The server itself would do so at its next checkpoint, after five minutes.
      await eventually(() => readdirSync(archived).includes(written?.file ?? ''), {
        what: 'the log with the row',
        within: 120_000,
      });
      await query(url('third_Password-3'), 'DELETE FROM kept WHERE n = 2');
    },
  );

  it('refuses plain text with a certificate, and reloads a changed certificate', async () => {
    setPassword('fourth_Password-4');
    const pki = mkdtempSync(join(tmpdir(), 'space-entrypoint-pki-'));
    const [ours, foreign] = [makeAuthority(pki, 'ours'), makeAuthority(pki, 'foreign')];
    const mount = ({ cert, key }: { cert: string; key: string }) => {
      for (const [from, to] of [
        [cert, 'tls.crt'],
        [key, 'tls.key'],
      ] as const) {
        const path = join(directory, 'tls', to);
        cpSync(from, path);
        chmodSync(path, 0o640);
        if (process.getuid?.() === 0) chownSync(path, 0, NOBODY);
      }
    };
    mkdirSync(join(directory, 'tls'));
    mount(ours.sign('first', ['DNS:localhost']));
    start();
    const verified = (ca: string) => {
      const address = url('fourth_Password-4').replace('127.0.0.1', 'localhost');
      return sqlstate(`${address}?sslmode=verify-full&sslrootcert=${ca}`);
    };
    await eventually(async () => (await verified(ours.cert)) === 'ok', { what: 'the server' });
    // No entry of pg_hba.conf fits, whatever the password.
    expect(await sqlstate(url('fourth_Password-4'))).toBe('28000');
    expect(await verified(foreign.cert)).toMatch(/^(UNABLE_TO_|SELF_SIGNED_|CERT_SIGNATURE_)/);

    const renew = () =>
      execFileSync('/bin/sh', [join(directory, 'image/renew.sh')], { ...asServer, env: environment() });
    renew();
    mount(foreign.sign('second', ['DNS:localhost']));
    renew();
    await eventually(async () => (await verified(foreign.cert)) === 'ok', {
      what: 'the exchanged certificate',
    });
    // Half of an exchange is no pair: the server keeps what it has.
    cpSync(ours.cert, join(directory, 'tls/tls.crt'));
    renew();
    await eventually(() => log().includes('SSL configuration was not reloaded'), { what: 'the refusal' });
    expect(await verified(foreign.cert)).toBe('ok');
    rmSync(join(directory, 'tls'), { recursive: true });
    rmSync(pki, { recursive: true });
  });

  describe('among tenants', () => {
    const tenant = `spc_${'a'.repeat(40)}`;
    const own = () => url('tenant_Password', tenant, tenant);
    const broker = () => url('tenants_Password');
    const sessions: pg.Client[] = [];
    const session = async (to: string) => {
      const client = await connect(to);
      sessions.push(client);
      return { client, gone: new Promise<void>((resolve) => client.once('end', () => resolve())) };
    };
    const begin = async (changes: Readonly<Record<string, string>> = {}) => {
      setPassword('tenants_Password');
      start(changes);
      await eventually(async () => (await sqlstate(broker())) === 'ok', { what: 'the server' });
      if ((await sqlstate(own())) === 'ok') return;
      await query(broker(), `CREATE ROLE ${tenant} LOGIN PASSWORD 'tenant_Password'`);
      await query(broker(), `CREATE DATABASE ${tenant}`);
      await query(broker(), `GRANT CREATE ON DATABASE ${tenant} TO ${tenant}`);
    };
    afterEach(async () => {
      for (const client of sessions.splice(0)) await client.end().catch(() => undefined);
      rmSync(join(directory, 'cgroup'), { recursive: true, force: true });
    });

    it('a query that needs more memory than a session may have fails, and nothing else does', async () => {
      await begin();
      const neighbour = await session(broker());
      const greedy = await session(own());
      await greedy.client.query("SET work_mem = '2GB'");
      const sort =
        "SELECT count(*) FROM (SELECT repeat('x', 200) || i FROM generate_series(1, 2000000) i ORDER BY 1 DESC) s";
      await expect(greedy.client.query(sort)).rejects.toMatchObject({ code: '53200' });
      await greedy.client.query('SELECT 1');
      await neighbour.client.query('SELECT 1');
    });

    it('a tenant can create the listed extensions, and the server does not start with one that is not trusted', async () => {
      // As the image has it: all of them aside, and in their place what the entry point chooses.
      const programs = join(directory, 'programs');
      cpSync(dirname(postgresPrograms('17')), programs, { recursive: true, verbatimSymlinks: true });
      const share = join(programs, 'share/postgresql');
      renameSync(join(share, 'extension'), join(share, 'extension.all'));
      symlinkSync(join(directory, 'extension'), join(share, 'extension'));
      const image = { PG_PROGRAMS: join(programs, 'bin'), EXTENSIONS_FROM: join(share, 'extension.all') };
      await begin({ ...image, EXTENSIONS: 'pg_trgm citext' });
      await query(own(), 'CREATE EXTENSION pg_trgm');
      expect(await sqlstate(own(), 'CREATE EXTENSION hstore')).toBe('0A000');
      expect(await sqlstate(own(), 'CREATE EXTENSION dblink')).toBe('0A000');
      await end('SIGINT');
      await begin({ ...image, EXTENSIONS: 'citext' });
      expect(await query(own(), "SELECT similarity('word', 'words') > 0.5 AS similar")).toEqual([
        { similar: true },
      ]);
      await query(own(), 'CREATE EXTENSION citext');
      await end('SIGINT');
      for (const extension of ['dblink', 'nothing']) {
        const refused = start({ ...image, EXTENSIONS: extension });
        expect((await once(refused, 'exit'))[0]).toBe(1);
      }
      expect(log()).toContain('extension dblink is not trusted');
      expect(log()).toContain('extension nothing is not in the image');
    });

    it('connections of one address with too many that have not logged in, silent or not, are ended and others log in', async () => {
      await begin({ LOGINS_PER_ADDRESS: '4' });
      const hello = Buffer.from('\0\0\0\x22\0\x03\0\0user\0nobody\0database\0nobody\0\0', 'latin1');
      hello.writeInt32BE(hello.length);
      let ended = 0;
      const sockets = Array.from({ length: 12 }, (_, i) => {
        const socket = connectSocket({ port, host: '127.0.0.1' });
        socket.on('error', () => undefined).on('close', () => (ended += 1));
        socket.resume();
        if (i % 2 === 0) socket.write(hello);
        return socket;
      });
      await eventually(() => log().includes('guard: too many connections that have not logged in: ended'), {
        what: 'the guard',
      });
      await eventually(() => ended > 0, { what: 'the end of one of them' });
      for (const socket of sockets) socket.destroy();
      expect(await sqlstate(own())).toBe('ok');
    });

    /** Asks to log in to a database with the name of the user, and never proves to be that. */
    function knock(name: string): Promise<void> {
      const hello = Buffer.from(`\0\0\0\0\0\x03\0\0user\0${name}\0database\0${name}\0\0`, 'latin1');
      hello.writeInt32BE(hello.length);
      const socket = connectSocket({ port, host: '127.0.0.1' });
      socket.on('error', () => undefined);
      socket.resume().write(hello);
      return new Promise((resolve) => socket.once('close', () => resolve()));
    }

    it.each([
      'parallel worker for PID 1',
      'checkpointer',
      'postgres postgres [local] authentication waiting',
    ])('connections that have not logged in count whichever name they give: %s', async (name) => {
      await begin({ LOGINS_PER_ADDRESS: '4' });
      const before = log().length;
      let over = false;
      const again = async () => {
        while (!over) await knock(name);
      };
      const knocks = Array.from({ length: 12 }, again);
      const line = 'guard: too many connections that have not logged in: ended';
      await eventually(() => log().slice(before).includes(line), { what: 'the guard' }).finally(() => {
        over = true;
      });
      await Promise.all(knocks);
    });

    it('a name that looks as if nobody could log in ends no session that waits for a lock', async () => {
      await begin();
      const [holder, waiter] = [await session(own()), await session(own())];
      await holder.client.query('SELECT pg_advisory_lock(1)');
      const waits = waiter.client.query('SELECT pg_advisory_lock(1)').then(
        () => 'has it',
        () => 'was ended',
      );
      const before = log().length;
      // The server ends it after `authentication_timeout`, ten turns of the guard.
      await knock('postgres postgres [local] authentication waiting');
      await holder.client.query('SELECT pg_advisory_unlock(1)');
      expect(await waits).toBe('has it');
      expect(log().slice(before)).not.toContain('nobody can log in');
    });

    it('many addresses, each with few connections that have not logged in, leave slots for others', async () => {
      await begin({ MAX_CONNECTIONS: '42' });
      const ended = new Set<number>();
      const sockets = Array.from({ length: 24 }, (_, i) => {
        const localAddress = `127.0.1.${1 + (i % 6)}`;
        const socket = connectSocket({ port, host: '127.0.0.1', localAddress });
        socket.on('error', () => undefined).on('close', () => ended.add(i));
        return socket.resume();
      });
      await eventually(() => log().includes('guard: too many connections that have not logged in: ended'), {
        what: 'the guard',
      });
      await eventually(() => ended.size >= 12, { what: 'the end of those that are too many' });
      for (const socket of sockets) socket.destroy();
      expect(await sqlstate(own())).toBe('ok');
    });

    it('the largest session of a tenant is ended before the container runs out of memory', async () => {
      await begin();
      const neighbour = await session(broker());
      const large = await session(own());
      mkdirSync(join(directory, 'cgroup'));
      writeFileSync(join(directory, 'cgroup/memory.stat'), 'anon 900\nfile 5000\nshmem 10\n');
      writeFileSync(join(directory, 'cgroup/memory.max'), '1000\n');
      await large.gone;
      await eventually(() => log().includes(`guard: memory runs out: ended 1 of ${tenant}`), {
        what: 'its line of the log',
      });
      await neighbour.client.query('SELECT 1');
    });

    it('a tenant that uses much processor time gets a lower priority', async (context) => {
      await begin({ BUSY_SECONDS: '1' });
      const inherited = getPriority(running!.pid!);
      if (inherited >= YIELDING)
        return context.skip('the server yields as much as anybody, and only root may change that');
      const [neighbour, calm, busy] = [await session(broker()), await session(own()), await session(own())];
      const niceness = async ({ client }: typeof busy) => {
        const [row] = (await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')).rows;
        const pid = row?.pid ?? 0;
        // `ps` names none of a process that only runs while others are idle, as it may be where the tests do.
        return () => getPriority(pid);
      };
      const [ofNeighbour, ofCalm, ofBusy] = [
        await niceness(neighbour),
        await niceness(calm),
        await niceness(busy),
      ];
      const before = ofBusy();
      busy.client
        .query('SELECT count(*) FROM (SELECT generate_series(1, 1000000000)) AS streamed')
        .catch(() => undefined);
      await eventually(() => ofBusy() === YIELDING, { what: 'its lower priority' });
      expect([before, ofNeighbour(), ofCalm()]).toEqual(Array(3).fill(inherited));
    });

    it('a query that shares more memory with its workers than a session may have is ended', async () => {
      await begin({ SESSION_MEMORY_KIB: '65536' });
      const neighbour = await session(broker());
      const { client, gone } = await session(own());
      await client.query(`CREATE SCHEMA h; SET search_path = h; CREATE TABLE wide AS SELECT i, repeat('x', 100) AS x FROM generate_series(1, 700000) i;
        ANALYZE wide; SET work_mem = '2GB'; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0;
        SET max_parallel_workers_per_gather = 2; SET parallel_leader_participation = off;
        SET enable_nestloop = off; SET enable_mergejoin = off`);
      client
        .query('SELECT pg_sleep(600) FROM wide a JOIN wide b USING (i, x) LIMIT 1')
        .catch(() => undefined);
      await gone;
      await eventually(
        () => log().includes(`guard: parallel workers share too much memory: ended 1 of ${tenant}`),
        {
          what: 'its line of the log',
        },
      );
      await neighbour.client.query('SELECT 1');
    });

    it('a session that exports more snapshots than a backup needs is ended, since each is a file that no quota counts', async () => {
      await begin();
      const neighbour = await session(broker());
      const { client, gone } = await session(own());
      const few = await session(own());
      await few.client.query('BEGIN; SELECT pg_export_snapshot()');
      const many = 'BEGIN; SELECT count(pg_export_snapshot()) FROM generate_series(1, 2000)';
      await client.query(many).catch(() => undefined);
      await gone;
      await eventually(() => log().includes(`guard: too many snapshots: ended 1 of ${tenant}`), {
        what: 'its line of the log',
      });
      await eventually(() => readdirSync(join(data(), 'pg_snapshots')).length === 1, {
        what: 'the end of its files',
      });
      await few.client.query('SELECT 1');
      await neighbour.client.query('SELECT 1');
    });

    it('sessions that create files are ended before the disk has no inodes left', async () => {
      await begin({ DISK_RESERVE_FILES: String(2 ** 50) });
      const neighbour = await session(broker());
      const { gone } = await session(own());
      await gone;
      await eventually(() => log().includes('guard: the disk runs out of files'), {
        what: 'its line of the log',
      });
      await neighbour.client.query('SELECT 1');
    });

    it('no message and no row of a tenant is in the log of the server', async () => {
      await begin();
      const { client } = await session(own());
      await client.query('CREATE SCHEMA words; SET search_path = words');
      const before = log().length;
      const said = [
        "DO $$ BEGIN RAISE LOG 'overheard'; RAISE WARNING 'overheard'; END $$",
        "SET debug_print_parse = on; SELECT 'overheard'; SET debug_print_parse = off",
        "SELECT 'overheard'::int",
        "CREATE TABLE said (word text UNIQUE); INSERT INTO said VALUES ('overheard')",
        "INSERT INTO said VALUES ('overheard')",
        `ALTER ROLE ${tenant} RESET log_min_messages`,
        'SET log_min_messages = notice',
        `ALTER ROLE ${tenant} SET log_min_messages = notice`,
        `CREATE FUNCTION tell(n int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RAISE LOG 'overheard'; RETURN n; END $$;
         CREATE TABLE told (n int); CREATE INDEX ON told (tell(n)); INSERT INTO told SELECT generate_series(1, 1000)`,
      ];
      for (const statement of said) await client.query(statement).catch(() => undefined);
      await eventually(
        async () => {
          const [row] = await query(
            own(),
            "SELECT last_autoanalyze FROM pg_stat_user_tables WHERE relname = 'told'",
          );
          return row?.last_autoanalyze instanceof Date;
        },
        { what: 'an analysis of autovacuum' },
      );
      expect(log().slice(before)).not.toContain('overheard');
      // What the server says of itself is there.
      await end('SIGINT');
      expect(log().slice(before)).toContain('database system is shut down');
    });

    it('sessions are ended before the disk is full', async () => {
      await begin({ DISK_RESERVE_MIB: String(2 ** 40) });
      const neighbour = await session(broker());
      const { gone } = await session(own());
      await gone;
      await eventually(() => log().includes('guard: the disk runs full'), { what: 'its line of the log' });
      await neighbour.client.query('SELECT 1');
    });

    it('the tenant with the most temporary files is ended before the disk is so full that all are', async () => {
      const { bavail, bsize } = statfsSync(directory);
      const before = existsSync(join(directory, 'log')) ? log().length : 0;
      await begin({ DISK_RESERVE_MIB: String(Math.floor((bavail * bsize * 0.7) / 2 ** 20)) });
      const neighbour = await session(broker());
      const { client, gone } = await session(own());
      const spill =
        "DECLARE c CURSOR FOR SELECT repeat('x', 500) || i AS x FROM generate_series(1, 200000) i ORDER BY 1";
      await client.query(`BEGIN; SET work_mem = '1MB'; ${spill}; FETCH 1 FROM c`).catch(() => undefined);
      await gone;
      await eventually(() => log().includes(`guard: temporary files fill the disk: ended 1 of ${tenant}`), {
        what: 'its line of the log',
      });
      expect(log().slice(before)).not.toContain('guard: the disk runs full');
      const few = await session(own());
      await few.client.query('SELECT pg_sleep(3)');
      await neighbour.client.query('SELECT 1');
    });

    it.skipIf(!existsSync('/usr/bin/psql'))('a session that prevents all logins is ended', async () => {
      await begin({ PSQL: '/usr/bin/psql' });
      const { client, gone } = await session(own());
      const loop = `DO $$ DECLARE i bigint := 0; BEGIN LOOP
        i := i + 1; BEGIN PERFORM pg_advisory_lock(i); EXCEPTION WHEN OTHERS THEN NULL; END; END LOOP; END $$`;
      await client.query(loop).catch(() => undefined);
      await gone;
      await eventually(() => log().includes(`guard: nobody can log in: ended 1 of ${tenant}`), {
        what: 'its line of the log',
      });
      expect(await sqlstate(broker())).toBe('ok');
    });

    it.skipIf(!existsSync('/usr/bin/psql'))(
      'a session that everybody waits for at a shared catalogue is ended, and the guard does not wait',
      async () => {
        await begin({ PSQL: '/usr/bin/psql' });
        const [holder, other] = [await session(own()), await session(own())];
        await holder.client.query('SET idle_in_transaction_session_timeout = 0; BEGIN; TABLE pg_database');
        const before = log().length;
        const rule = 'CREATE RULE r AS ON INSERT TO pg_database DO NOTHING';
        await expect(other.client.query(rule)).rejects.toThrow();
        await other.gone;
        const line = `guard: nobody can log in: ended 1 of ${tenant}`;
        await eventually(() => log().slice(before).includes(line), { what: 'its line of the log' });
        expect(await sqlstate(broker())).toBe('ok');
        await holder.client.query('SELECT 1');
      },
    );

    it.skipIf(!existsSync('/usr/bin/psql'))(
      'the server is restarted because of a session that does not end while nobody can log in',
      async () => {
        await begin({ PSQL: '/usr/bin/psql' });
        const { client, gone } = await session(own());
        const [row] = (await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')).rows;
        // Like a session that drops thousands of temporary tables at its end: it reacts only to SIGKILL.
        process.kill(row!.pid, 'SIGSTOP');
        const holder = await session(broker());
        const loop = `DO $$ DECLARE i bigint := 0; BEGIN LOOP
        i := i + 1; BEGIN PERFORM pg_advisory_lock(i); EXCEPTION WHEN OTHERS THEN NULL; END; END LOOP; END $$`;
        holder.client.query(loop).catch(() => undefined);
        await Promise.all([gone, holder.gone]);
        const line =
          'guard: nobody can log in because of a session that does not end: restarts the server because of 1 of';
        await eventually(() => log().includes(`${line} ${tenant}`), { what: 'its line of the log' });
        await eventually(async () => (await sqlstate(own())) === 'ok', { what: 'the server' });
      },
    );

    it.skipIf(!existsSync('/usr/bin/psql'))(
      'an autovacuum worker that runs a function of a tenant for too long is ended, and free for others',
      async () => {
        await begin({ PSQL: '/usr/bin/psql', ANALYZE_SECONDS: '1' });
        const { client } = await session(own());
        // It sleeps only in the worker that analyses its index.
        await client.query(`SET application_name = 'mine'; CREATE SCHEMA s; CREATE TABLE s.t (n int);
          CREATE FUNCTION s.slow(n int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN
            IF current_setting('application_name') <> 'mine' THEN PERFORM pg_sleep(1000000); END IF; RETURN n; END $$;
          CREATE INDEX ON s.t (s.slow(n)); INSERT INTO s.t SELECT generate_series(1, 1000)`);
        await eventually(() => log().includes(`guard: an analysis takes too long: ended 1 of ${tenant}`), {
          what: 'its line of the log',
        });
        await client.query('DROP SCHEMA s CASCADE');
      },
    );

    it.skipIf(!existsSync('/usr/bin/psql'))(
      'a tenant whose tables are vacuumed slowly leaves autovacuum workers for others',
      async () => {
        await begin({ PSQL: '/usr/bin/psql', ANALYZE_SECONDS: '3' });
        const { client } = await session(own());
        const slow = Array.from(
          { length: 6 },
          (_, i) => `CREATE TABLE slow.t${i} WITH (autovacuum_vacuum_cost_delay = 100,
          autovacuum_vacuum_cost_limit = 1, autovacuum_vacuum_threshold = 1) AS
          SELECT i, repeat('x', 1000) AS x FROM generate_series(1, 4000) i; DELETE FROM slow.t${i}`,
        );
        await client.query(`CREATE SCHEMA slow; ${slow.join(';')}`);
        await query(
          broker(),
          'CREATE TABLE mine WITH (autovacuum_vacuum_threshold = 1) AS SELECT generate_series(1, 9000) AS n',
        );
        const workers = () =>
          query(broker(), "SELECT datname FROM pg_stat_activity WHERE backend_type = 'autovacuum worker'");
        await eventually(
          async () => (await workers()).filter(({ datname }) => datname === tenant).length >= 4,
          { what: 'all workers to be with the tenant' },
        );
        await query(broker(), 'DELETE FROM mine');
        await eventually(
          () => /guard: no autovacuum worker is left for other databases: ended \d of spc_a/.test(log()),
          {
            what: 'its line of the log',
          },
        );
        const cleaned = "SELECT 1 FROM pg_stat_user_tables WHERE relname = 'mine' AND autovacuum_count > 0";
        await eventually(async () => (await query(broker(), cleaned)).length === 1, {
          what: "the neighbour's table to be vacuumed",
        });
        await client.query('DROP SCHEMA slow CASCADE');
        await query(broker(), 'DROP TABLE mine');
      },
    );

    it.skipIf(!existsSync('/usr/bin/psql'))(
      'the server is restarted once because of a session that does not end and blocks drops',
      async () => {
        await begin({ PSQL: '/usr/bin/psql', DEAF_SECONDS: '1' });
        const hold = async () => {
          const { client, gone } = await session(own());
          client.query(UNINTERRUPTIBLE).catch(() => undefined);
          let pid: unknown;
          await eventually(
            async () => {
              const rows = await query(
                broker(),
                "SELECT pid FROM pg_stat_activity WHERE usename = $1 AND state = 'active' AND query_start < now() - interval '2 seconds'",
                [tenant],
              );
              pid = rows[0]?.pid;
              return rows.length === 1;
            },
            { what: 'the computation' },
          );
          await query(broker(), `ALTER DATABASE ${tenant} ALLOW_CONNECTIONS false`);
          return { gone, pid: Number(pid) };
        };
        await query(broker(), 'CREATE DATABASE scratch');
        const first = await hold();
        await expect(query(broker(), 'DROP DATABASE scratch')).rejects.toThrow();
        await first.gone;
        const line = 'drops wait for a session that does not end: restarts the server because of 1 of';
        await eventually(() => log().includes(`${line} ${tenant}`), { what: 'its line of the log' });
        await eventually(async () => (await sqlstate(broker())) === 'ok', { what: 'the server' });
        await query(broker(), 'DROP DATABASE IF EXISTS scratch');

        await query(broker(), `ALTER DATABASE ${tenant} ALLOW_CONNECTIONS true`);
        await query(broker(), 'CREATE DATABASE scratch');
        const second = await hold();
        try {
          const patient = `${broker()}?options=-c%20statement_timeout%3D15s`;
          await expect(query(patient, 'DROP DATABASE scratch')).rejects.toMatchObject({ code: '57014' });
          expect(log().split(line)).toHaveLength(2);
        } finally {
          // Nothing else ends it here either: a session is a process group of its own, and does not look for its server.
          process.kill(second.pid, 'SIGKILL');
          await end('SIGKILL');
        }
      },
    );
  });
});
