import { readFileSync } from 'node:fs';
import type { PostgresMajor } from './binaries.ts';

/** The options of a server that its configuration depends on. */
interface Options {
  readonly asInImage?: boolean;
  readonly durable?: boolean;
  readonly settings?: Readonly<Record<string, string>>;
}

const image = (file: string) =>
  readFileSync(new URL(`../../brokers/db/postgres/${file}`, import.meta.url), 'utf8');

/** The lines of `settings.conf` that a major version knows; with an unknown one it would not start. */
export function settingsOf(major: PostgresMajor): readonly string[] {
  const known = (line: string) => Number(/# (\d+)$/.exec(line)?.[1] ?? 0) <= Number(major);
  return image('settings.conf').split('\n').filter(known);
}

/** The complete configuration of a server: the image's settings, then its own. */
export function configurationOf(
  options: Options,
  major: PostgresMajor,
  port: number,
  directory: string,
): string {
  const own: Record<string, string> = {
    listen_addresses: '127.0.0.1',
    port: String(port),
    unix_socket_directories: directory,
    shared_buffers: '64MB',
    ...(options.durable === false
      ? { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off' }
      : {}),
    ...options.settings,
    max_connections: connectionsOf(options),
  };
  const lines = Object.entries(own).map(([name, value]) => `${name} = '${value.replaceAll("'", "''")}'`);
  return `${[...settingsOf(major), ...lines].join('\n')}\n`;
}

/** The image's number of connections unless it is set; tests use fewer. */
export function connectionsOf({ asInImage = false, settings = {} }: Options): string {
  const ofImage = /^max_connections = (\d+)$/m.exec(image('settings.conf'))?.[1] ?? '';
  return settings['max_connections'] ?? (asInImage ? ofImage : '230');
}

/** The image's `pg_hba.conf`, with a line that also lets the superuser log in over TCP; or one line that admits every role. */
export function hbaOf({ asInImage = false }: Options): string {
  if (!asInImage) return 'local all postgres peer map=server\nhost all all 127.0.0.1/32 scram-sha-256\n';
  return image('pg_hba.conf').replace(/^(host +all +postgres +all +)reject$/m, '$1scram-sha-256');
}
