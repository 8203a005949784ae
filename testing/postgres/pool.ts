import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fromDebian } from '../installed/debian.ts';
import { startServer } from '../installed/server.ts';

/** Debian's pgbouncer on loopback, in front of a server. */
export interface Pool {
  readonly port: number;
  remove(): Promise<void>;
}

export interface PoolOptions {
  /** The URL for the one role and database that it serves. */
  readonly url: string;
  readonly mode: 'session' | 'transaction';
  /** Whether it ignores settings that a client sends at the start of a session; otherwise it refuses them. */
  readonly dropsSettings: boolean;
}

export async function startPool({ url, mode, dropsSettings }: PoolOptions): Promise<Pool> {
  const { hostname, port, username, password, pathname } = new URL(url);
  const directory = mkdtempSync(join(tmpdir(), 'space-pgbouncer-'));
  const users = join(directory, 'users');
  writeFileSync(users, `"${username}" "${decodeURIComponent(password)}"\n`, { mode: 0o600 });
  const settings = (listenPort: number) => {
    const lines = [
      '[databases]',
      `${pathname.slice(1)} = host=${hostname} port=${port} user=${username} password=${decodeURIComponent(password)}`,
      '[pgbouncer]',
      'listen_addr = 127.0.0.1',
      `listen_port = ${listenPort}`,
      'unix_socket_dir =',
      'auth_type = scram-sha-256',
      `auth_file = ${users}`,
      `pool_mode = ${mode}`,
      ...(dropsSettings ? ['ignore_startup_parameters = options'] : []),
      // pgbouncer refuses to run as root.
      ...(process.getuid?.() === 0 ? ['user = nobody'] : []),
    ];
    const path = join(directory, 'pgbouncer.ini');
    writeFileSync(path, `${lines.join('\n')}\n`, { mode: 0o600 });
    return path;
  };
  const removed = () => rmSync(directory, { recursive: true, force: true });
  try {
    const program = await fromDebian('pgbouncer', 'usr/sbin/pgbouncer');
    const server = await startServer('pgbouncer', program, async (listenPort) => [settings(listenPort)]);
    return {
      port: server.port,
      remove: async () => {
        await server.stop();
        removed();
      },
    };
  } catch (error) {
    removed();
    throw error;
  }
}
