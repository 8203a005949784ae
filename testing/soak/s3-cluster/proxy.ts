import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fromDebian } from '../../installed/debian.ts';
import { type Server, startServer } from '../../installed/server.ts';
import type { Node } from './node.ts';

/** Starts a HAProxy that checks each node twice a second, and forwards requests to healthy ones. */
export async function startProxy(
  directory: string,
  nodes: readonly Pick<Node, 'name' | 'port'>[],
  health: string,
): Promise<Server> {
  const haproxy = await fromDebian('haproxy', 'usr/sbin/haproxy');
  const file = join(directory, 'haproxy.cfg');
  return startServer('haproxy', haproxy, async (port) => {
    writeFileSync(file, configuration(port, nodes, health));
    return ['-f', file, '-db'];
  });
}

function configuration(port: number, nodes: readonly Pick<Node, 'name' | 'port'>[], health: string): string {
  const lines = [
    'global',
    '  maxconn 2000',
    'defaults',
    '  mode http',
    '  timeout connect 2s',
    '  timeout client 2m',
    '  timeout server 2m',
    '  retries 3',
    // A request that no node has received yet goes to another node.
    '  option redispatch 1',
    'listen s3',
    `  bind 127.0.0.1:${port}`,
    '  balance leastconn',
    `  option httpchk GET ${health}`,
    '  http-check expect status 200',
    '  default-server inter 500ms fall 2 rise 2 on-marked-down shutdown-sessions',
    ...nodes.map((node) => `  server ${node.name.replace(' ', '-')} 127.0.0.1:${node.port} check`),
  ];
  return `${lines.join('\n')}\n`;
}
