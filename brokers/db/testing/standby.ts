import { type ChildProcess, spawn } from 'node:child_process';
import { appendFileSync, chownSync, cpSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { eventually } from '../../../testing/eventually.ts';
import { freePort } from '../../../testing/ports.ts';
import { postgresPrograms } from '../../../testing/postgres/binaries.ts';
import type { EmbeddedServer } from '../../../testing/postgres/server.ts';
import { query } from './postgres.ts';

/** A server that follows another and may take its place. */
export interface Standby {
  readonly port: number;
  readonly superuserUrl: string;
  /** From now on it takes writes. */
  promote(): Promise<void>;
  remove(): Promise<void>;
}

const NOBODY = 65_534;

/**
 * Makes a physical standby of a server of the newest major version, which stops and starts again for it, and which
 * from then on answers a COMMIT only once the standby has it.
 */
export async function startStandby(primary: EmbeddedServer): Promise<Standby> {
  const asServer = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {};
  const directory = mkdtempSync(join(dirname(primary.directory), 'space-standby-'));
  const data = join(directory, 'data');
  const port = await freePort();
  appendFileSync(
    join(primary.directory, 'data/pg_hba.conf'),
    'host replication all 127.0.0.1/32 scram-sha-256\n',
  );
  await primary.stop();
  cpSync(join(primary.directory, 'data'), data, { recursive: true, preserveTimestamps: true });
  appendFileSync(
    join(primary.directory, 'data/postgresql.conf'),
    "synchronous_standby_names = '*'\nsynchronous_commit = remote_apply\n",
  );
  await primary.start();

  const { username, password } = new URL(primary.superuserUrl);
  const source = `host=127.0.0.1 port=${primary.port} user=${username} password=${password}`;
  writeFileSync(join(data, 'standby.signal'), '');
  appendFileSync(
    join(data, 'postgresql.conf'),
    `port = ${port}\nunix_socket_directories = ''\nprimary_conninfo = '${source}'\n`,
  );
  if (asServer.uid !== undefined) own(directory);
  const child: ChildProcess = spawn(join(postgresPrograms('18'), 'postgres'), ['-D', data], {
    ...asServer,
    cwd: directory,
    stdio: 'ignore',
    env: { LC_ALL: 'C', TZ: 'UTC' },
  });
  const url = new URL(primary.superuserUrl);
  url.port = String(port);
  const superuserUrl = url.href;
  const remove = async () => {
    if (child.exitCode === null && child.signalCode === null) {
      const ended = new Promise((resolve) => child.once('exit', resolve));
      child.kill('SIGINT');
      await ended;
    }
    rmSync(directory, { recursive: true, force: true });
  };
  try {
    await eventually(
      async () => {
        const [row] = await query<{ n: number }>(
          primary.superuserUrl,
          "SELECT count(*)::int AS n FROM pg_stat_replication WHERE state = 'streaming' AND sync_state <> 'async'",
        );
        return row?.n === 1;
      },
      { what: 'the standby to follow' },
    );
  } catch (error) {
    await remove();
    throw error;
  }
  return {
    port,
    superuserUrl,
    promote: async () => {
      await query(superuserUrl, 'SELECT pg_promote()');
    },
    remove,
  };
}

function own(path: string): void {
  chownSync(path, NOBODY, NOBODY);
  for (const entry of readdirSync(path, { recursive: true, withFileTypes: true }))
    chownSync(join(entry.parentPath, entry.name), NOBODY, NOBODY);
}
