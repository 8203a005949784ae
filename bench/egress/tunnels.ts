import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fromDebian } from '../../testing/installed/debian.ts';
import { type Server, startServer } from '../../testing/installed/server.ts';
import type { Fixture } from './fixture.ts';

export async function startSquid({ directory }: Fixture, upstream: number): Promise<Server> {
  const squid = await fromDebian('squid-openssl', 'usr/sbin/squid');
  return startServer('squid', squid, async (port) => {
    const file = join(directory, 'squid.conf');
    const settings = {
      http_port: `127.0.0.1:${port}`,
      cache: 'deny all',
      access_log: 'none',
      cache_log: '/dev/null',
      pid_filename: 'none',
      visible_hostname: 'bench',
      mime_table: '/dev/null',
      coredump_dir: 'none',
      unlinkd_program: '/bin/true',
      pinger_enable: 'off',
      icon_directory: directory,
      error_directory: directory,
    };
    const lines = Object.entries(settings).map(([name, value]) => `${name} ${value}\n`);
    const rules = `acl out port ${upstream}\nhttp_access allow CONNECT out\nhttp_access deny all\n`;
    await writeFile(file, `${rules}${lines.join('')}`);
    return ['-N', '-f', file];
  });
}

export async function startTinyproxy({ directory }: Fixture, upstream: number): Promise<Server> {
  const tinyproxy = await fromDebian('tinyproxy-bin', 'usr/bin/tinyproxy');
  return startServer('tinyproxy', tinyproxy, async (port) => {
    const file = join(directory, 'tinyproxy.conf');
    await writeFile(
      file,
      `Port ${port}\nListen 127.0.0.1\nAllow 127.0.0.1\nMaxClients 200\nConnectPort ${upstream}\nLogLevel Critical\n`,
    );
    return ['-d', '-c', file];
  });
}
