import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createSecureServer, type Http2ServerRequest, type Http2ServerResponse } from 'node:http2';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { portOf } from '@space/broker-kit';
import { makePki } from '../../../testing/certificates.ts';
import { makeGateway } from './gateway.ts';

/** Programs that are not ours, unmodified, with the environment that a pod has, and a host behind the gateway. */
export interface ClientFixture {
  /** An allowed host, as HTTPS; and one that no manifest names. */
  readonly url: string;
  readonly deniedUrl: string;
  /** Proxy, its port and principal, and the variables by which common programs trust the host's CA. */
  readonly env: Readonly<Record<string, string>>;
  readonly port: number;
  readonly principal: string;
  readonly authority: string;
  /** A directory of this fixture for a client's files. */
  readonly directory: string;
  /** How the gateway's tunnels ended since it was last asked. */
  ended(): readonly string[];
  close(): Promise<void>;
}

const HOST = 'api.bank.org';
const REF = `${'a'.repeat(40)}\trefs/heads/main\n`;

/** What `openClientFixture`'s host answers to any other request. */
export const GREETING = 'hello from the host';

export async function openClientFixture(): Promise<ClientFixture> {
  const directory = mkdtempSync(join(tmpdir(), 'space-egress-clients-'));
  const pki = await makePki();
  const authority = join(directory, 'ca.pem');
  writeFileSync(authority, pki.authority);
  const tls = await pki.issue(HOST);
  const server = createSecureServer({ ...tls, allowHTTP1: true }, answer);
  // One that only wants to know whether a WebSocket opens.
  server.on('upgrade', (request, socket) => {
    const key = `${request.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`;
    const accept = createHash('sha1').update(key).digest('base64');
    socket.write(
      `HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-accept: ${accept}\r\n\r\n`,
    );
    socket.write(Buffer.concat([Buffer.from([0x81, GREETING.length]), Buffer.from(GREETING)]));
    socket.on('error', () => undefined).resume();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const test = await makeGateway({
    fixed: new Map([[HOST, { address: '127.0.0.1', port: portOf(server), ttl: 60, trusted: true }]]),
    limits: { unknownWaitMs: 3_000 },
  });
  await test.put({ allowed_hosts: [HOST] });
  const proxy = `http://egr:${test.principal}@127.0.0.1:${test.port}`;
  let told = 0;
  return {
    url: `https://${HOST}`,
    deniedUrl: 'https://other.bank.org',
    port: test.port,
    principal: test.principal,
    authority,
    directory,
    env: {
      HTTPS_PROXY: proxy,
      https_proxy: proxy,
      NO_PROXY: 'assistant-egress',
      no_proxy: 'assistant-egress',
      NODE_USE_ENV_PROXY: '1',
      NODE_EXTRA_CA_CERTS: authority,
      SSL_CERT_FILE: authority,
      CURL_CA_BUNDLE: authority,
      REQUESTS_CA_BUNDLE: authority,
      GIT_SSL_CAINFO: authority,
      GIT_TERMINAL_PROMPT: '0',
      GRPC_DEFAULT_SSL_ROOTS_FILE_PATH: authority,
    },
    ended() {
      const codes = test.log.slice(told).map((line) => (JSON.parse(line) as { code: string }).code);
      told = test.log.length;
      return codes;
    },
    async close() {
      await test.close();
      server.close();
      await pki.remove();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

function answer(request: Http2ServerRequest, response: Http2ServerResponse): void {
  request.resume();
  // A repository without git's own protocol, …
  if (request.url.startsWith('/repository.git/info/refs')) return void response.end(REF);
  // … one answer of a language model, …
  if (request.url === '/v1/chat/completions') {
    const message = { role: 'assistant', content: GREETING };
    const choices = [{ index: 0, finish_reason: 'stop', message }];
    response.setHeader('content-type', 'application/json');
    const about = { id: '1', object: 'chat.completion', created: 1, model: 'm' };
    return void response.end(JSON.stringify({ ...about, choices }));
  }
  // … and one of a procedure.
  if (request.headers['content-type']?.startsWith('application/grpc') === true) {
    const length = Buffer.alloc(5);
    length.writeUInt32BE(GREETING.length, 1);
    response.setHeader('content-type', 'application/grpc');
    response.addTrailers({ 'grpc-status': '0' });
    return void response.end(Buffer.concat([length, Buffer.from(GREETING)]));
  }
  response.end(GREETING);
}

const execute = promisify(execFile);
const PATIENCE_MS = 120_000;

/** The output of a program that succeeds. @throws with its output if it fails */
export async function runClient(
  fixture: ClientFixture,
  command: readonly string[],
  options: { readonly env?: Readonly<Record<string, string>>; readonly cwd?: string } = {},
): Promise<string> {
  const [program = '', ...args] = command;
  const { stdout, stderr } = await execute(program, args, {
    cwd: options.cwd ?? fixture.directory,
    // Nothing of this process's own settings for proxies or authorities.
    env: {
      PATH: process.env['PATH'] ?? '',
      HOME: process.env['HOME'] ?? '',
      ...fixture.env,
      ...options.env,
    },
    timeout: PATIENCE_MS,
  });
  return stdout + stderr;
}
