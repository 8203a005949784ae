import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdirSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { freePort } from '../../ports.ts';
import { settingsOf } from '../../postgres/settings.ts';
import type { Programs } from './programs.ts';

/** One PostgreSQL server, and the Patroni that makes it primary or standby. */
export interface Node {
  readonly name: string;
  readonly port: number;
  readonly restPort: number;
  start(): void;
  /** Kills both and removes the data, as if the machine were lost; the next start is another machine. */
  lose(): Promise<void>;
}

export interface NodeOptions {
  readonly name: string;
  readonly programs: Programs;
  readonly directory: string;
  readonly etcdPort: number;
  readonly passwords: { readonly superuser: string; readonly replication: string };
}

const NOBODY = 65_534;
const asServer = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {};

export async function prepareNode(options: NodeOptions): Promise<Node> {
  const { name, programs, directory } = options;
  const [port, restPort] = [await freePort(), await freePort()];
  const home = join(directory, name);
  mkdirSync(home);
  chmodSync(home, 0o777);
  const major =
    programs.major === '15' || programs.major === '16' || programs.major === '18' ? programs.major : '17';
  writeFileSync(join(home, 'settings.conf'), `${settingsOf(major).join('\n')}\n`);
  const file = join(home, 'patroni.yml');
  writeFileSync(file, stringify(configuration(options, { home, port, restPort })));
  let running: ChildProcess | undefined;
  let isLost = false;
  return {
    name,
    port,
    restPort,
    start: () => {
      // The data is removed only now: sessions end a moment after the kill, and would report missing files to their clients.
      if (isLost) rmSync(join(home, 'data'), { recursive: true, force: true });
      isLost = false;
      const log = openSync(join(home, 'log'), 'a');
      running = spawn('/usr/bin/python3', [programs.patroni.script, file], {
        ...asServer,
        cwd: home,
        stdio: ['ignore', log, log],
        env: { PATH: process.env['PATH'], HOME: home, LC_ALL: 'C.UTF-8', TZ: 'UTC', ...programs.env },
      });
    },
    lose: async () => {
      const child = running;
      running = undefined;
      if (child !== undefined && child.exitCode === null && child.signalCode === null) {
        const gone = once(child, 'exit');
        child.kill('SIGKILL');
        await gone;
      }
      killPostmaster(join(home, 'data/postmaster.pid'));
      isLost = true;
    },
  };
}

function killPostmaster(file: string): void {
  try {
    process.kill(Number(readFileSync(file, 'utf8').split('\n')[0]), 'SIGKILL');
  } catch {
    // It does not run.
  }
}

function configuration(
  { name, programs, etcdPort, passwords }: NodeOptions,
  at: { readonly home: string; readonly port: number; readonly restPort: number },
): object {
  const rest = `127.0.0.1:${at.restPort}`;
  const server = `127.0.0.1:${at.port}`;
  const { superuser, replication } = passwords;
  return {
    scope: 'space',
    name,
    restapi: { listen: rest, connect_address: rest },
    etcd3: { hosts: `127.0.0.1:${etcdPort}` },
    bootstrap: {
      dcs: {
        // The least that Patroni accepts: the time without a sign after which a primary counts as lost.
        ttl: 20,
        loop_wait: 2,
        retry_timeout: 5,
        maximum_lag_on_failover: 1_048_576,
        // A COMMIT is answered after a standby has it, and only such a standby may become primary.
        synchronous_mode: true,
        synchronous_mode_strict: true,
        postgresql: {
          use_pg_rewind: true,
          parameters: {
            max_connections: 300,
            max_locks_per_transaction: 1_024,
            max_prepared_transactions: 0,
            wal_log_hints: true,
          },
        },
      },
      initdb: [{ encoding: 'UTF8' }, { locale: 'C.UTF-8' }],
    },
    postgresql: {
      listen: server,
      connect_address: server,
      data_dir: join(at.home, 'data'),
      bin_dir: programs.bin,
      custom_conf: join(at.home, 'settings.conf'),
      // A former primary whose log has diverged is copied again.
      remove_data_directory_on_rewind_failure: true,
      remove_data_directory_on_diverged_timelines: true,
      pgpass: join(at.home, 'pgpass'),
      parameters: {
        unix_socket_directories: at.home,
        shared_buffers: '64MB',
        max_wal_size: '256MB',
        log_min_messages: 'fatal',
      },
      pg_hba: [
        'local all postgres trust',
        'host replication replicator 127.0.0.1/32 scram-sha-256',
        'host all all 127.0.0.1/32 scram-sha-256',
      ],
      authentication: {
        superuser: { username: 'postgres', password: superuser },
        replication: { username: 'replicator', password: replication },
      },
    },
  };
}
