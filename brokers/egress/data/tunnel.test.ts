import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import { Duplex, duplexPair } from 'node:stream';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import { portOf } from '@space/broker-kit';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { makePki, type TestPki } from '../../../testing/certificates.ts';
import { basic, digest, makeGateway, type TestGateway } from '../testing/gateway.ts';
import { startUpstream, type TestUpstream } from '../testing/upstream.ts';
import type { DataLimits } from './limits.ts';

const HOST = 'api.bank.org';
let pki: TestPki;
let upstream: TestUpstream;
let test: TestGateway;

beforeAll(async () => {
  pki = await makePki();
  upstream = await startUpstream(await pki.issue(HOST, 'other.bank.org'));
});
afterAll(async () => {
  await upstream.close();
  await pki.remove();
});
beforeEach(() => open());
afterEach(() => test.close());

async function open(limits: Partial<DataLimits> = {}): Promise<void> {
  const answer = { address: '127.0.0.1', port: upstream.port, ttl: 60, trusted: true as const };
  const fixed = new Map([HOST, 'other.bank.org', 'third.bank.org'].map((host) => [host, answer]));
  fixed.set('inside.bank.org', { ...answer, trusted: undefined as unknown as true });
  test = await makeGateway({ fixed, limits: { helloMs: 60_000, tunnels: 4, ...limits } });
  await test.put({ allowed_hosts: [HOST, 'other.bank.org', 'nowhere.bank.org', 'inside.bank.org'] });
}

/** Another gateway, whose only host is this one. */
async function openTo(host: Server, limits: Partial<DataLimits> = {}): Promise<void> {
  await once(host.listen(0, '127.0.0.1'), 'listening');
  await test.close();
  const answer = { address: '127.0.0.1', port: portOf(host), ttl: 60, trusted: true as const };
  test = await makeGateway({ fixed: new Map([[HOST, answer]]), limits });
  await test.put({ allowed_hosts: [HOST] });
}

async function secure(servername: string, target = `${HOST}:443`): Promise<TLSSocket> {
  const { head, socket } = await test.tunnel(target);
  expect(head).toBe('HTTP/1.1 200 Connection Established\r\n\r\n');
  return connectTls({ socket, servername, ca: pki.authority });
}

/** However it ends: what a peer has cut may also be reset. */
function closed(socket: Socket): Promise<void> {
  socket.on('error', () => undefined);
  return new Promise((resolve) => socket.once('close', () => resolve()));
}

async function get(socket: TLSSocket, host = HOST): Promise<string> {
  let text = '';
  socket.on('data', (chunk) => {
    text += chunk;
  });
  socket.write(`GET / HTTP/1.1\r\nhost: ${host}\r\nconnection: close\r\n\r\n`);
  await closed(socket);
  return text;
}

/** What comes next on a connection that was paused. */
async function saidBy(socket: Socket): Promise<string> {
  const next = once(socket, 'data');
  socket.resume();
  const [bytes] = await next;
  socket.pause();
  return String(bytes);
}

/** The first bytes of a TLS client that names the host. */
async function clientHello(host: string): Promise<Buffer> {
  const [client, server] = duplexPair();
  const socket = connectTls({ socket: client, servername: host }).on('error', () => undefined);
  const [bytes] = await once(server, 'data');
  socket.destroy();
  return bytes;
}

const count = () =>
  new Promise<number>((resolve) => test.gateway.listener.server.getConnections((_, open) => resolve(open)));
const codeOf = (head: string) => /platform-egress-error: (\w+)/.exec(head)?.[1];
const lastLine = async () => {
  while (test.log.length === 0) await new Promise((resolve) => setImmediate(resolve));
  return JSON.parse(test.log.at(-1) ?? '{}');
};

describe('a tunnel', () => {
  it('carries TLS to an allowed host, end to end', async () => {
    const socket = await secure(HOST);
    await once(socket, 'secureConnect');
    expect(socket.authorized).toBe(true);
    const about = { capsule_id: 'home', app_id: 'ledger', assistant_uid: 'uid-1' };
    const told = () => test.gateway.calls.of(test.gateway.policies.of(about)).calls;
    // It may last for days.
    expect(told()).toMatchObject([{ host: HOST, ending: 'open', count: 1 }]);
    expect(await get(socket)).toMatch(/^HTTP\/1\.1 200 OK[\s\S]*ok$/);
    expect(await lastLine()).toMatchObject({
      operation: 'connect',
      capsule: 'home',
      app: 'ledger',
      host: HOST,
      code: 'ok',
    });
    expect(told()).toMatchObject([{ host: HOST, ending: 'ok', count: 1 }]);
  });

  it.each([
    ['another host', 'evil.org:443', 'host_denied'],
    ['a host of a stored input alone', 'third.bank.org:443', 'host_denied'],
    ['a dot at the end', `${HOST}.:443`, 'host_denied'],
    ['capitals', 'API.BANK.ORG:443', 'host_denied'],
    ['brackets', `[${HOST}]:443`, 'host_denied'],
    ['user info', `x@${HOST}:443`, 'host_denied'],
    ['another port', `${HOST}:8443`, 'host_denied'],
    ['a port with a zero', `${HOST}:0443`, 'host_denied'],
    ['no port', HOST, 'host_denied'],
    ['a subdomain', `x.${HOST}:443`, 'host_denied'],
    ['an address', '127.0.0.1:443', 'host_denied'],
    ['an IPv6 address', '[::1]:443', 'host_denied'],
    ['a number', '2130706433:443', 'host_denied'],
    ['a name that does not resolve', 'nowhere.bank.org:443', 'name_unresolved'],
    ['a name with an address inside', 'inside.bank.org:443', 'address_denied'],
  ])('is not opened to %s', async (_, target, code) => {
    const before = upstream.connections();
    const { head } = await test.tunnel(target);
    expect(codeOf(head)).toBe(code);
    expect(upstream.connections()).toBe(before);
  });

  it('resolves no host that is not allowed, since a name can carry data out', async () => {
    const before = test.used.names.length;
    for (const target of [
      '736563726574.evil.org:443',
      `736563726574.${HOST}:443`,
      `736563726574.evil.org:53`,
    ])
      expect(codeOf((await test.tunnel(target)).head)).toBe('host_denied');
    expect(test.used.names.slice(before)).toEqual([]);
  });

  it('is not opened when the Host header says something else', async () => {
    const { head } = await test.tunnel(`${HOST}:443`, {
      host: 'other.bank.org',
      'proxy-authorization': basic(test.principal),
    });
    expect(codeOf(head)).toBe('invalid_request');
  });

  it('is not opened when the policy changed while its host was being looked up', async () => {
    await test.close();
    const resolved = Promise.withResolvers<void>();
    const answer = { address: '127.0.0.1', port: upstream.port, ttl: 60, trusted: true as const };
    test = await makeGateway({
      resolve: async () => {
        await test.put({ allowed_hosts: [] });
        resolved.resolve();
        return [answer];
      },
    });
    await test.put({ allowed_hosts: [HOST] });
    const text = await test
      .raw(`CONNECT ${HOST}:443 HTTP/1.1\r\nproxy-authorization: ${basic(test.principal)}\r\n\r\n`)
      .catch(() => 'ended');
    await resolved.promise;
    expect(text).not.toContain('200');
  });

  it.each(['evil.org', HOST])('is not opened when a second Host header says %s', async (second) => {
    const text = await test.raw(
      `CONNECT ${HOST}:443 HTTP/1.1\r\nhost: ${HOST}\r\nHost: ${second}\r\nproxy-authorization: ${basic(test.principal)}\r\n\r\n`,
    );
    expect(codeOf(text)).toBe('invalid_request');
  });

  it.each([
    ['another principal', { 'proxy-authorization': basic(`spc_egr_${'A'.repeat(43)}`) }],
    ['another audience', { 'proxy-authorization': basic(`spc_dbp_${'A'.repeat(43)}`) }],
    ['another user', { 'proxy-authorization': 'Basic ' + Buffer.from('root:x').toString('base64') }],
    ['nothing', { 'proxy-authorization': '' }],
    ['another scheme', { 'proxy-authorization': 'Negotiate YII=' }],
    ['garbage', { 'proxy-authorization': 'Basic \u0001' }],
  ])('is not opened for a caller with %s', async (_, headers) => {
    const { head } = await test.tunnel(`${HOST}:443`, headers as Record<string, string>);
    expect(head.split('\r\n')[0]).toMatch(/^HTTP\/1\.1 40[03]/);
    expect(['forbidden', 'invalid_request']).toContain(codeOf(head));
  });

  it('can be requested again with a credential, on the same connection', async () => {
    const { head, socket } = await test.tunnel(`${HOST}:443`, {});
    expect(head).toMatch(/^HTTP\/1\.1 407 Proxy Authentication Required\r\n/);
    expect(head).toMatch(/\r\nproxy-authenticate: Basic realm="space"\r\n/);
    expect(codeOf(head)).toBe('credential_required');
    expect(head).not.toMatch(/\r\nconnection: close/);
    expect(head.slice(head.indexOf('\r\n\r\n') + 4)).toHaveLength(
      Number(/content-length: (\d+)/.exec(head)?.[1]),
    );
    expect(await lastLine()).toMatchObject({ code: 'credential_required', status: 407 });
    const connections = await count();
    socket.write(`CONNECT ${HOST}:443 HTTP/1.1\r\nproxy-authorization: ${basic(test.principal)}\r\n\r\n`);
    expect(await saidBy(socket)).toBe('HTTP/1.1 200 Connection Established\r\n\r\n');
    expect(await count()).toBe(connections);
    const secure = connectTls({ socket, servername: HOST, ca: pki.authority });
    expect(await get(secure)).toMatch(/ok$/);
  });

  it('gets a 407 as often as it comes without a credential, and is refused if that is wrong', async () => {
    const { socket } = await test.tunnel(`${HOST}:443`, {});
    for (let i = 0; i < 20; i++) {
      socket.write(`CONNECT ${HOST}:443 HTTP/1.1\r\nhost: ${HOST}:443\r\n\r\n`);
      expect(await saidBy(socket)).toMatch(/^HTTP\/1\.1 407 /);
    }
    // Nothing is left behind on the connection by those before.
    expect(socket.listenerCount('close')).toBeLessThan(10);
    const wrong = basic(`spc_egr_${'A'.repeat(43)}`);
    socket.write(`CONNECT ${HOST}:443 HTTP/1.1\r\nproxy-authorization: ${wrong}\r\n\r\n`);
    expect(await saidBy(socket)).toMatch(/^HTTP\/1\.1 403 /);
  });

  it('is refused to a caller that sends data before it was asked for its credential', async () => {
    const text = await test.raw(
      `CONNECT ${HOST}:443 HTTP/1.1\r\nhost: ${HOST}:443\r\n\r\n\u0016\u0003\u0001`,
    );
    expect(codeOf(text)).toBe('forbidden');
  });

  it('is not opened for the right principal from another address', async () => {
    await test.put({ allowed_hosts: [HOST], addresses: ['10.1.2.3'] });
    const { head } = await test.tunnel(`${HOST}:443`);
    expect(codeOf(head)).toBe('forbidden');
  });

  it('waits a moment for a caller whose address is about to become known', async () => {
    await test.close();
    await open({ unknownWaitMs: 10 * 60_000 });
    await test.put({ allowed_hosts: [HOST], addresses: [] });
    const watch = vi.spyOn(test.gateway.policies, 'watch');
    const opening = test.tunnel(`${HOST}:443`);
    await vi.waitFor(() => expect(watch).toHaveBeenCalledOnce(), { timeout: 240_000 });
    await test.put({ allowed_hosts: [HOST] });
    const { head, socket } = await opening;
    expect(head).toMatch(/^HTTP\/1.1 200/);
    socket.destroy();
  });

  it.each([
    ['another host', 'other.bank.org', 'sni_mismatch'],
    ['no host', '', 'sni_mismatch'],
  ])('ends with an alert when the ClientHello names %s', async (_, servername, code) => {
    const before = upstream.seen.length;
    const socket = await secure(servername);
    const [error] = await once(socket, 'error');
    expect(String(error)).toMatch(/unrecognized.name/i);
    expect(await lastLine()).toMatchObject({ code });
    expect(upstream.seen.length).toBe(before);
  });

  it.each([
    ['what is not TLS', Buffer.from('GET / HTTP/1.1\r\n\r\n'), 'not_tls'],
    ['a ClientHello in pieces', Buffer.from([22, 3, 1, 0, 6, 1, 0, 2, 0, 3, 3]), 'hello_fragmented'],
    ['half a ClientHello', Buffer.from([22, 3, 1, 2, 0, 1, 0]), 'hello_timeout'],
    ['silence', Buffer.alloc(0), 'hello_timeout'],
  ])('ends when it begins with %s', async (_, bytes, code) => {
    if (code === 'hello_timeout') {
      await test.close();
      await open({ helloMs: 300 });
    }
    const { socket } = await test.tunnel(`${HOST}:443`);
    socket.write(bytes);
    socket.resume();
    await closed(socket);
    expect(await lastLine()).toMatchObject({ code });
  });

  it('gives a slow client everything that its host has sent, although the host has closed', async () => {
    const [length, many] = [1024 * 1024, 150];
    const host = createServer({ allowHalfOpen: false }, (socket) => {
      socket.on('error', () => undefined).once('data', () => socket.end(Buffer.alloc(length, 'x')));
    });
    await openTo(host, { tunnels: many, perSecond: many, burst: many });
    const hello = await clientHello(HOST);
    const got = await Promise.all(
      Array.from({ length: many }, async () => {
        const { socket } = await test.tunnel(`${HOST}:443`);
        socket.write(hello);
        let bytes = 0;
        const ended = closed(socket);
        socket.on('data', (chunk) => {
          bytes += chunk.length;
          socket.pause();
          setTimeout(() => socket.resume(), 1);
        });
        socket.resume();
        await ended;
        return bytes;
      }),
    );
    host.close();
    expect(got.filter((bytes) => bytes !== length)).toEqual([]);
  });

  it('keeps what its host has sent for a client that reads after the host has closed', async () => {
    const length = 500_000;
    const left = Promise.withResolvers<void>();
    const host = createServer((socket) => {
      socket.on('error', () => undefined).once('data', () => socket.end(Buffer.alloc(length, 'x')));
      socket.once('close', () => left.resolve());
    });
    await openTo(host);
    // It reads one part in each turn, and everything behind that is still in the gateway.
    let text = '';
    const client = new Duplex({
      writableHighWaterMark: 1024 * 1024,
      read: () => undefined,
      write(chunk: Buffer, _encoding, done) {
        text += chunk.toString('latin1');
        setTimeout(done, 20);
      },
    });
    Object.assign(client, { remoteAddress: '127.0.0.1' });
    const gone = new Promise((resolve) => client.once('close', resolve));
    test.gateway.listener.server.emit('connection', client);
    client.push(`CONNECT ${HOST}:443 HTTP/1.1\r\nproxy-authorization: ${basic(test.principal)}\r\n\r\n`);
    while (!text.includes('200')) await new Promise((resolve) => setImmediate(resolve));
    client.push(await clientHello(HOST));
    await Promise.race([once(client, 'finish'), gone]);
    expect(text.split('\r\n\r\n')[1]).toHaveLength(length);
    client.push(null);
    await left.promise;
    host.close();
  });

  it('carries what its client sends after the host has closed its side', async () => {
    const said = Promise.withResolvers<string>();
    const host = createServer({ allowHalfOpen: true }, (socket) => {
      let text = '';
      socket
        .on('error', () => undefined)
        .once('data', () => {
          socket.end('that is all');
          socket.on('data', (chunk) => {
            text += chunk;
          });
          socket.once('end', () => said.resolve(text));
        });
    });
    await openTo(host);
    const { socket } = await test.tunnel(`${HOST}:443`);
    socket.write(await clientHello(HOST));
    socket.allowHalfOpen = true;
    const ended = once(socket, 'end');
    const gone = closed(socket);
    expect(await saidBy(socket)).toBe('that is all');
    socket.resume();
    await ended;
    socket.end('not yet');
    expect(await said.promise).toBe('not yet');
    await gone;
    host.close();
  });

  it('ends for its client when the host resets its connection', async () => {
    const host = createServer((socket) => {
      socket.once('data', () => socket.write('so much', () => socket.resetAndDestroy()));
    });
    await openTo(host);
    const { socket } = await test.tunnel(`${HOST}:443`);
    const gone = closed(socket);
    socket.write(await clientHello(HOST));
    socket.resume();
    await gone;
    host.close();
  });

  it('ends at once when the host had reset its connection before the ClientHello', async () => {
    const host = createServer((socket) => void socket.on('error', () => undefined));
    const accepted = once(host, 'connection');
    await openTo(host);
    const { head, socket } = await test.tunnel(`${HOST}:443`);
    expect(head).toContain('200');
    (await accepted)[0].resetAndDestroy();
    // While this one is opened, the gateway notices the reset.
    (await test.tunnel(`${HOST}:443`)).socket.destroy();
    const gone = closed(socket);
    socket.write(await clientHello(HOST));
    socket.resume();
    await gone;
    const codes = () => test.log.map((line) => JSON.parse(line).code);
    await vi.waitFor(() => expect(codes()).toContain('upstream_failed'), 240_000);
    host.close();
  });

  it('ends when a later policy does not allow its host, and the others stay', async () => {
    const gone = await secure(HOST);
    await once(gone, 'secureConnect');
    const stays = await secure('other.bank.org', 'other.bank.org:443');
    await once(stays, 'secureConnect');
    const ended = closed(gone);
    await test.put({ allowed_hosts: ['other.bank.org'] });
    await ended;
    expect(await get(stays, 'other.bank.org')).toMatch(/ok$/);
  });

  it.each([
    ['principal', { principals: [digest('x')] }],
    ['address', { addresses: [] }],
  ])('ends if its caller loses its %s', async (_, change) => {
    const socket = await secure(HOST);
    await once(socket, 'secureConnect');
    const ended = closed(socket);
    await test.put({ allowed_hosts: [HOST], ...change });
    await ended;
  });

  it('ends when its Assistant is removed, which a late message does not undo', async () => {
    const socket = await secure(HOST);
    await once(socket, 'secureConnect');
    const ended = closed(socket);
    test.gateway.policies.remove({ capsule_id: 'home', app_id: 'ledger', assistant_uid: 'uid-1' });
    await ended;
    await expect(test.put({ allowed_hosts: [HOST] })).rejects.toMatchObject({ code: 'conflict' });
  });

  it('is one of a bounded number', async () => {
    const open = await Promise.all(Array.from({ length: 4 }, () => test.tunnel(`${HOST}:443`)));
    const { head } = await test.tunnel(`${HOST}:443`);
    expect(head).toMatch(/^HTTP\/1.1 429[\s\S]*retry-after: 1/);
    for (const { socket } of open) socket.destroy();
  });
});

it('a tunnel with too many headers is refused', async () => {
  const fields = Object.fromEntries(Array.from({ length: 256 }, (_, at) => [`x-${at}`, '']));
  const { head } = await test.tunnel(`${HOST}:443`, {
    'proxy-authorization': basic(test.principal),
    ...fields,
  });
  expect(codeOf(head)).toBe('header_too_large');
});

describe('a request for neither a tunnel nor an input', () => {
  it.each([
    [
      'both lengths',
      'POST /i/x/y HTTP/1.1\r\nhost: assistant-egress\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\nabc',
      'invalid_request',
    ],
    [
      'two lengths',
      'POST /i/x/y HTTP/1.1\r\nhost: assistant-egress\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\nabc',
      'invalid_request',
    ],
    ['a bare line feed', 'GET /i/x/y HTTP/1.1\nhost: assistant-egress\n\n', 'invalid_request'],
    [
      'a folded header',
      'GET /i/x/y HTTP/1.1\r\nhost: assistant-egress\r\nx: a\r\n b\r\n\r\n',
      'invalid_request',
    ],
    ['a space before a colon', 'GET /i/x/y HTTP/1.1\r\nhost : assistant-egress\r\n\r\n', 'invalid_request'],
    [
      'a chunk of nonsense',
      'POST /i/x/y HTTP/1.1\r\nhost: assistant-egress\r\ntransfer-encoding: xchunked\r\n\r\n',
      undefined,
    ],
    [
      'headers without end',
      `GET /i/x/y HTTP/1.1\r\nhost: assistant-egress\r\nx: ${'a'.repeat(40_000)}\r\n\r\n`,
      'header_too_large',
    ],
  ])('is refused: %s', async (_, bytes, code) => {
    const text = await test.raw(bytes);
    expect(text).toMatch(/^HTTP\/1\.1 4\d\d/);
    if (code !== undefined) expect(codeOf(text)).toBe(code);
    expect(text).not.toContain('aaaa');
  });

  it('is refused as plain HTTP to any host', async () => {
    const text = await test.raw(
      `GET http://${HOST}/ HTTP/1.1\r\nhost: ${HOST}\r\nproxy-authorization: ${basic(test.principal)}\r\nconnection: close\r\n\r\n`,
    );
    expect(text).toMatch(/^HTTP\/1\.1 403[\s\S]*do not retry by another way/);
    expect(codeOf(text)).toBe('plain_http_denied');
  });
});
