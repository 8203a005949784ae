import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  appendFileSync,
  chmodSync,
  chownSync,
  copyFileSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statfsSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { Secret } from '@space/broker-kit';
import pg from 'pg';
import { derivationKey, scramVerifier } from '../../brokers/db/core/credentials.ts';
import { freePort } from '../ports.ts';
import { type PostgresMajor, postgresPrograms } from './binaries.ts';
import { configurationOf, connectionsOf, hbaOf } from './settings.ts';

/** A PostgreSQL on loopback that was set up with the files of production. */
export interface EmbeddedServer {
  readonly port: number;
  /** The broker's URL, to its registry database. */
  readonly brokerUrl: string;
  /** The object-storage broker's URL, to its own registry database. */
  readonly objectStoreUrl: string;
  /** The superuser's URL, to inspect the server. */
  readonly superuserUrl: string;
  readonly logPath: string;
  readonly directory: string;
  /** Stops it with a fast shutdown; the data stays. */
  stop(): Promise<void>;
  /** Sends SIGKILL to the postmaster, as a crash; the data stays. */
  kill(): Promise<void>;
  /** Starts it again with the same data and port. */
  start(): Promise<void>;
  /** Stops it and removes the data. */
  remove(): Promise<void>;
}

export interface EmbeddedOptions {
  readonly major?: PostgresMajor;
  /** Settings in addition to the fixed ones. */
  readonly settings?: Readonly<Record<string, string>>;
  /** False trades durability for speed, for tests that do not crash the server. */
  readonly durable?: boolean;
  /** Its log also contains messages of sessions, for tests that search it for secrets; in production it does not. */
  readonly logsSessions?: boolean;
  /**
   * Starts it as the image does: major version, limits on connections before login, session memory, and the guard. The only difference is that
   * the superuser may log in with a password. Without this, every role may try to connect to every database, as on a server that
   * somebody else set up, and only the broker keeps tenants apart.
   */
  readonly asInImage?: boolean;
  /** The parent of its directory; by default a place in memory, or the directory for temporary files. */
  readonly place?: string;
}

/** Root may not run PostgreSQL; this account exists on every Linux. */
const NOBODY = 65_534;
/** The major version of `brokers/db/postgres/Dockerfile`. */
const IMAGE_MAJOR = '17';
const account = process.getuid?.() === 0 ? 'nobody' : userInfo().username;
const SQL = new URL('../../brokers/db/postgres/', import.meta.url);

export async function startEmbeddedServer(options: EmbeddedOptions = {}): Promise<EmbeddedServer> {
  const major = options.major ?? (options.asInImage === true ? IMAGE_MAJOR : '18');
  const programs = postgresPrograms(major);
  const place = options.place ?? (options.durable === false ? memory() : tmpdir());
  const directory = mkdtempSync(join(place, 'space-postgres-'));
  const data = join(directory, 'data');
  const logPath = join(directory, 'server.log');
  const asServer = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {};
  let running: ChildProcess | undefined;

  const remove = async () => {
    await end('SIGINT');
    rmSync(directory, { recursive: true, force: true });
  };

  async function end(signal: 'SIGINT' | 'SIGKILL'): Promise<void> {
    const child = running;
    running = undefined;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise((resolve) => child.once('exit', resolve));
    child.kill(signal);
    await ended;
  }

  try {
    chmodSync(directory, 0o711);
    if (asServer.uid !== undefined) chownSync(directory, asServer.uid, asServer.gid);
    const passwords = { broker: newPassword(), objectStore: newPassword(), superuser: newPassword() };
    const port = await freePort();
    const run = (program: string, args: readonly string[], input = '') => {
      const env = { PATH: process.env['PATH'], LC_ALL: 'C', TZ: 'UTC' };
      const result = spawnSync(join(programs, program), args, {
        ...asServer,
        cwd: directory,
        env,
        input,
        encoding: 'utf8',
      });
      if (result.status !== 0)
        throw new Error(`${program} failed: ${result.stderr || result.error?.message}`);
    };
    run('initdb', [
      '-D',
      data,
      '-U',
      'postgres',
      '-E',
      'UTF8',
      '--locale=C.UTF-8',
      '--no-sync',
      '--auth=trust',
      ...(options.asInImage === true ? ['--data-checksums'] : []),
    ]);
    writeFileSync(join(data, 'pg_hba.conf'), hbaOf(options));
    writeFileSync(join(data, 'pg_ident.conf'), `server ${account} postgres\n`);
    appendFileSync(join(data, 'postgresql.conf'), configurationOf(options, major, port, directory));
    // The server's account may be unable to read this checkout.
    if (options.asInImage === true)
      for (const file of ['guard.pl', 'guard.sql']) copyFileSync(new URL(file, SQL), join(directory, file));
    const throwaway = derivationKey(randomBytes(32));
    const statements = [
      readFileSync(new URL('bootstrap.sql', SQL), 'utf8'),
      readFileSync(new URL('registry.sql', SQL), 'utf8'),
      readFileSync(new URL('objectstore.sql', SQL), 'utf8'),
      readFileSync(new URL('objectstore-registry.sql', SQL), 'utf8'),
      `ALTER ROLE space_objectstore PASSWORD '${await scramVerifier(throwaway, passwords.objectStore)}';\n\n`,
      `ALTER ROLE space_broker PASSWORD '${await scramVerifier(throwaway, passwords.broker)}';\n\n`,
      `ALTER ROLE postgres PASSWORD '${await scramVerifier(throwaway, passwords.superuser)}';\n\n`,
      ...(options.logsSessions === true ? ['ALTER ROLE ALL RESET log_min_messages;\n\n'] : []),
    ].join('');
    run('postgres', ['--single', '-j', '-D', data, '-c', 'exit_on_error=on', 'postgres'], statements);

    const brokerUrl = `postgresql://space_broker:${passwords.broker.reveal()}@127.0.0.1:${port}/space_registry`;
    const objectStoreUrl = `postgresql://space_objectstore:${passwords.objectStore.reveal()}@127.0.0.1:${port}/space_objectstore`;
    const superuserUrl = `postgresql://postgres:${passwords.superuser.reveal()}@127.0.0.1:${port}/postgres`;
    const startOnce = async () => {
      const logged = existsSync(logPath) ? statSync(logPath).size : 0;
      const beside = `ulimit -d 131072; perl "$3" "$1" "$4" "$5" "$6" &`;
      const child = spawn(
        '/bin/sh',
        [
          '-c',
          `exec >>"$2" 2>&1; ${options.asInImage === true ? beside : ''} exec "$0" -D "$1"`,
          join(programs, 'postgres'),
          ...[data, logPath, join(directory, 'guard.pl'), directory, String(port), programs],
        ],
        {
          ...asServer,
          cwd: directory,
          stdio: 'ignore',
          env: { PATH: process.env['PATH'], LC_ALL: 'C', TZ: 'UTC', MAX_CONNECTIONS: connectionsOf(options) },
        },
      );
      running = child;
      await untilReady(superuserUrl, child, () => readFileSync(logPath, 'utf8').slice(logged));
    };
    const start = async () => {
      const deadline = Date.now() + 60_000;
      for (;;) {
        try {
          return await startOnce();
        } catch (error) {
          // Processes that a killed postmaster left end within a moment.
          const outlived = error instanceof Error && error.message.includes(OUTLIVED);
          if (!outlived || Date.now() > deadline) throw error;
        }
      }
    };
    await start();
    return {
      port,
      brokerUrl,
      objectStoreUrl,
      superuserUrl,
      logPath,
      directory,
      start,
      stop: () => end('SIGINT'),
      kill: () => end('SIGKILL'),
      remove,
    };
  } catch (error) {
    await remove();
    throw error;
  }
}

const OUTLIVED = 'pre-existing shared memory block';

/** The fastest place for databases that need not last, since a clone is some three hundred files. */
function memory(): string {
  const shared = '/dev/shm';
  if (!existsSync(shared)) return tmpdir();
  const { bavail, bsize } = statfsSync(shared);
  return bavail * bsize >= 4 * 2 ** 30 ? shared : tmpdir();
}

function newPassword(): Secret<string> {
  return new Secret(randomBytes(32).toString('base64url'));
}

async function untilReady(url: string, child: ChildProcess, said: () => string): Promise<void> {
  const deadline = Date.now() + 60_000;
  for (;;) {
    const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 5_000 });
    client.on('error', () => undefined);
    try {
      await client.connect();
      await client.end();
      return;
    } catch (cause) {
      if (child.exitCode !== null || Date.now() > deadline) {
        throw new Error(`the server did not start: ${said().slice(-2_000)}`, { cause });
      }
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}
