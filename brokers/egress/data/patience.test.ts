import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { duplexPair } from 'node:stream';
import { connect as connectTls, createServer as createTlsServer, type TLSSocket } from 'node:tls';
import { portOf } from '@space/broker-kit';
import type { Definition } from '@space/manifests';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { makePki, type TestPki } from '../../../testing/certificates.ts';
import { eventually } from '../../../testing/eventually.ts';
import { makeGateway, type TestGateway } from '../testing/gateway.ts';
import type { DataLimits } from './limits.ts';

/** Slow, silent and endless transfers are ended, and use little memory until then. */

const HOST = 'api.bank.org';
const ROUTES: Definition['routes'] = [
  { method: 'GET', path: '/v1' },
  { method: 'POST', path: '/v1' },
];
const INPUTS: Readonly<Record<string, Definition>> = {
  key: { host: HOST, routes: ROUTES, header: 'X-Api-Key' },
  signed: { host: HOST, routes: ROUTES, header: 'X-Signature', hmac: 'sha256-body' },
};
/** A limit that a test waits for, and one that it must never reach. */
const [SOON, NEVER] = [200, 10 * 60_000];
/**
 * One that a test waits for, and that must not be reached before it begins to: host, gateway and caller are one process,
 * which may stand still for ten seconds on a busy machine.
 */
const LATER = 12_000;
/** More than the sockets' own buffers on the way ever hold. */
const MUCH = 64 * 1024 * 1024;
const PART = Buffer.alloc(64 * 1024, 'x');

let pki: TestPki;
let certificate: { readonly cert: string; readonly key: string };
let test: TestGateway;
let upstream: Server | undefined;
const sockets = new Set<Socket>();

beforeAll(async () => {
  pki = await makePki();
  certificate = await pki.issue(HOST);
});
afterAll(() => pki.remove());
afterEach(async () => {
  vi.useRealTimers();
  await test.close();
  for (const socket of sockets) socket.destroy();
  sockets.clear();
  upstream?.close();
});

const kept = <T extends Socket>(socket: T): T => {
  sockets.add(socket);
  socket.on('error', () => undefined);
  return socket;
};

async function start(
  limits: Partial<DataLimits>,
  serve: (socket: TLSSocket) => void,
  plain = false,
): Promise<void> {
  upstream = plain
    ? createServer((socket) => void kept(socket))
    : createTlsServer(certificate, (socket) => serve(kept(socket)));
  await once(upstream.listen(0, '127.0.0.1'), 'listening');
  const answer = { address: '127.0.0.1', port: portOf(upstream), ttl: 60, trusted: true as const };
  const all = { headMs: NEVER, helloMs: NEVER, connectMs: NEVER, tunnelIdleMs: NEVER };
  const more = { answerMs: NEVER, bodyIdleMs: NEVER, wholeRequestMs: NEVER };
  test = await makeGateway({
    fixed: new Map([[HOST, answer]]),
    authorities: pki.authority,
    limits: { ...all, ...more, ...limits },
  });
  await test.put({ allowed_hosts: [HOST] }, INPUTS);
}

/** However it ends. */
const closed = (socket: Socket) => new Promise((resolve) => socket.once('close', resolve));

/** Sends a head, then runs `more`, and returns the answer once the gateway has ended the connection. */
async function talk(head: string, more: (socket: Socket) => void = () => undefined): Promise<string> {
  const socket = kept(connect(test.port, '127.0.0.1'));
  let text = '';
  socket.setEncoding('latin1').on('data', (chunk) => {
    text += chunk;
  });
  socket.write(head);
  more(socket);
  // It may be reset because of what it still sends; the answer came before that.
  await closed(socket);
  return text;
}
const head = (method: string, fields: string, input = 'key') =>
  `${method} /i/${input}/v1 HTTP/1.1\r\nhost: assistant-egress\r\nauthorization: Bearer ${test.principal}\r\n` +
  `connection: close\r\n${fields}\r\n`;
const codeOf = (text: string) => /platform-egress-error: (\w+)/.exec(text)?.[1];

/** The log line of the request or tunnel. */
async function told(): Promise<Record<string, unknown>> {
  while (test.log.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
  return JSON.parse(test.log.at(-1) ?? '{}');
}

const connections = () =>
  new Promise<number>((resolve) => test.gateway.listener.server.getConnections((_, count) => resolve(count)));
/** Waits until a caller has been refused and none is connected. */
const idle = async () => {
  await told();
  await eventually(async () => (await connections()) === 0, { what: 'nobody is connected' });
};

/** Writes as long as the other side reads, and counts what it has read. */
function flood(socket: Socket): () => number {
  let bytes = 0;
  const write = () => {
    while (!socket.destroyed && bytes < 4 * MUCH) {
      bytes += PART.length;
      if (!socket.write(PART)) return void socket.once('drain', write);
    }
  };
  write();
  return () => bytes - socket.writableLength;
}

/** Repeats until the socket is closed. */
function drip(socket: Socket, bytes: () => string | Buffer): void {
  const timer = setInterval(() => socket.write(bytes()), 10);
  socket.once('close', () => clearInterval(timer));
}

const OK = 'HTTP/1.1 200 OK\r\n';

describe('a caller', () => {
  it('that never finishes its headers gets an error and is disconnected', async () => {
    await start({ headMs: SOON }, () => undefined);
    const text = await talk('GET /i/key/v1 HTTP/1.1\r\nhost: assistant-egress\r\nx: ', (socket) =>
      drip(socket, () => 'a'),
    );
    expect([text.split(' ')[1], codeOf(text)]).toEqual(['408', 'request_timeout']);
  });

  it.each(['key', 'signed'])('whose body stalls gets an error and is disconnected: %s', async (input) => {
    await start({ bodyIdleMs: SOON }, (socket) => socket.resume());
    const text = await talk(head('POST', 'content-length: 100\r\n', input), (socket) =>
      socket.write('ten bytes.'),
    );
    expect([text.split(' ')[1], codeOf(text)]).toEqual(['408', 'request_timeout']);
    expect(await told()).toMatchObject({ code: 'request_timeout', status: 408 });
  });

  it.each(['key', 'signed'])('whose body arrives too slowly is disconnected as well: %s', async (input) => {
    await start({ wholeRequestMs: 3 * SOON }, (socket) => socket.resume());
    const text = await talk(head('POST', 'content-length: 999\r\n', input), (socket) =>
      drip(socket, () => 'a'),
    );
    expect(codeOf(text)).toBe('upstream_timeout');
  });

  it('whose body has unknown length is stopped at the limit, with an error', async () => {
    await start({ bodyBytes: 100_000 }, (socket) => socket.resume());
    const chunk = `${PART.length.toString(16)}\r\n${PART.toString()}\r\n`;
    const text = await talk(head('POST', 'transfer-encoding: chunked\r\n'), (socket) =>
      socket.write(chunk + chunk),
    );
    expect([text.split(' ')[1], codeOf(text)]).toEqual(['413', 'too_large']);
  });

  it('that does not read an endless answer is disconnected, and little of the answer is fetched', async () => {
    let sent: () => number = () => 0;
    await start({ bodyIdleMs: LATER }, (socket) => {
      socket.once('data', () => {
        socket.write(`${OK}\r\n`);
        sent = flood(socket);
      });
    });
    const socket = kept(connect(test.port, '127.0.0.1'));
    socket.pause().write(head('GET', ''));
    expect(await told()).toMatchObject({ code: 'request_timeout', upstream_status: 200 });
    expect(sent()).toBeGreaterThan(0);
    expect(sent()).toBeLessThan(MUCH);
  });

  /**
   * Asks, reads nothing, and has the host end its answer as soon as a part of it waits in the gateway, for the system's
   * own buffers on the way are full.
   */
  async function leavesTheEnd(limits: Partial<DataLimits>): Promise<Socket> {
    let served: Socket | undefined;
    const ended = new Promise<void>((resolve) => {
      const answer = (host: Socket) => {
        host.write('HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n');
        const more = () => {
          if (served?.writableLength !== 0) return void host.end(resolve);
          host.write(PART.subarray(0, 8 * 1024), () => setImmediate(more));
        };
        host.once('data', more);
      };
      void start(limits, answer).then(() => {
        test.gateway.listener.server.once('connection', (socket) => {
          served = socket;
        });
        const caller = kept(connect(test.port, '127.0.0.1')).pause();
        callers.push(caller);
        caller.write(head('GET', ''));
      });
    });
    const callers: Socket[] = [];
    await ended;
    await eventually(async () => served !== undefined && served.writableLength > 0, {
      what: 'an answer that is not read',
    });
    return callers[0]!;
  }
  const open = async (): Promise<number> =>
    Number(/^space_egress_open\{operation="input"\} (\d+)$/m.exec(await test.registry.metrics())?.[1]);

  it('that does not read the end of an answer keeps its slot until it does', async () => {
    const caller = await leavesTheEnd({});
    for (let turn = 0; turn < 100; turn += 1) await new Promise((resolve) => setImmediate(resolve));
    expect([await open(), test.log]).toEqual([1, []]);
    caller.resume();
    await closed(caller);
    expect(await told()).toMatchObject({ code: 'ok', status: 200 });
    expect(await open()).toBe(0);
  });

  it('that does not read the end of an answer is disconnected', async () => {
    const caller = await leavesTheEnd({ bodyIdleMs: LATER });
    expect(await told()).toMatchObject({ code: 'request_timeout', status: 200 });
    await eventually(async () => (await connections()) === 0, { what: 'nobody is connected' });
    expect(await open()).toBe(0);
    caller.destroy();
  });

  it('that says nothing is disconnected without an answer and without a log line', async () => {
    await start({ headMs: SOON }, () => undefined);
    expect(await talk('')).toBe('');
    expect(test.log).toEqual([]);
  });

  it('that goes on with a malformed body gets no error within the answer that has begun', async () => {
    await start({}, (socket) => {
      socket.once('data', () => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nbegun'));
    });
    const text = await talk(head('POST', 'transfer-encoding: chunked\r\n'), (caller) => {
      caller.write('3\r\nabc\r\n');
      caller.once('data', () => caller.write('no chunk\r\n'));
    });
    expect(text).toMatch(/^HTTP\/1\.1 200 (?![\s\S]*HTTP\/1\.1)/);
  });

  it.each([250, 1_200])('with %s headers too many gets an error', async (many) => {
    await start({}, () => undefined);
    const text = await talk(head('POST', `${'a:\r\n'.repeat(7 + many)}content-length: 5\r\n`), (socket) =>
      socket.write('hello'),
    );
    expect([text.split(' ')[1], codeOf(text)]).toEqual(['431', 'header_too_large']);
  });

  it('whose tunnel head is too large gets an error', async () => {
    await start({}, () => undefined);
    const text = await talk(`CONNECT ${HOST}:443 HTTP/1.1\r\nx: ${'a'.repeat(40_000)}\r\n\r\n`);
    expect([text.split(' ')[1], codeOf(text)]).toEqual(['431', 'header_too_large']);
  });
});

describe('a connection', () => {
  it.each([
    ['a refused tunnel', () => 'CONNECT evil.org:443 HTTP/1.1\r\nproxy-authorization: x\r\n\r\n'],
    ['a refused form', () => 'GET / HTTP/1.1\nhost: x\n\n'],
  ])('of %s is closed when the caller neither reads nor closes', async (_, bytes) => {
    await start({}, () => undefined);
    const socket = kept(connect({ port: test.port, host: '127.0.0.1', allowHalfOpen: true }));
    socket.pause().write(bytes());
    await once(socket, 'connect');
    await idle();
  });

  it('of a refused request is closed when the caller does not read the answer', async () => {
    await start({}, () => undefined);
    // The buffers of both kernels are full, as of earlier answers.
    test.gateway.listener.server.on('connection', (socket: Socket) => socket.write(Buffer.alloc(MUCH)));
    const socket = kept(connect({ port: test.port, host: '127.0.0.1', allowHalfOpen: true }));
    socket.pause().write(head('GET', '', 'other').replace('connection: close\r\n', ''));
    expect(await told()).toMatchObject({ code: 'not_found' });
    await idle();
  });

  it('of a tunnel without a credential is closed when that does not arrive', async () => {
    await start({ headMs: SOON }, () => undefined);
    const text = await talk('CONNECT evil.org:443 HTTP/1.1\r\n\r\n');
    expect(text).toMatch(/^HTTP\/1\.1 407 [\s\S]*HTTP\/1\.1 408 /);
    await idle();
  });

  it('of a tunnel whose ClientHello was wrong is closed, too', async () => {
    await start({}, () => undefined);
    const { socket } = await test.tunnel(`${HOST}:443`);
    kept(socket).write('no TLS');
    await idle();
  });

  it('is one of a bounded number for each address', async () => {
    await start({ connections: 3 }, () => undefined);
    const open = await Promise.all([1, 2, 3].map(() => test.tunnel(`${HOST}:443`)));
    for (const { socket } of open) kept(socket);
    const fourth = kept(connect(test.port, '127.0.0.1'));
    await closed(fourth.resume());
    open[0]?.socket.destroy();
    await eventually(async () => (await connections()) === 2, { what: '2 are connected' });
    expect(await talk('GET / HTTP/1.1\r\nhost: assistant-egress\r\nconnection: close\r\n\r\n')).toMatch(
      /^HTTP/,
    );
  });
});

describe('an upstream', () => {
  it('that never completes the handshake is abandoned', async () => {
    await start({ connectMs: SOON }, () => undefined, true);
    expect(codeOf(await talk(head('GET', '')))).toBe('upstream_timeout');
  });

  it('whose connection outlasts the request does not delay its end', async () => {
    await start({ wholeRequestMs: SOON }, () => undefined, true);
    expect(codeOf(await talk(head('GET', '')))).toBe('upstream_timeout');
  });

  it('that answers before the body is complete is forwarded, whatever happens to the body', async () => {
    await start({}, (socket) => socket.once('data', () => socket.write(`${OK}content-length: 2\r\n\r\nok`)));
    const socket = kept(connect(test.port, '127.0.0.1'));
    socket.write(`${head('POST', 'content-length: 100\r\n')}ten bytes.`);
    const [answered] = await once(socket.setEncoding('latin1'), 'data');
    expect(answered).toMatch(/^HTTP\/1\.1 200 [\s\S]*ok$/);
    expect(await told()).toMatchObject({ code: 'ok', status: 200, bytes_in: 2 });
    socket.destroy();
    await eventually(async () => (await connections()) === 0, { what: 'nobody is connected' });
    expect(await talk(head('GET', ''))).toMatch(/^HTTP\/1\.1 200 /);
  });

  it('that never answers is abandoned', async () => {
    await start({ answerMs: SOON }, (socket) => socket.resume());
    expect(codeOf(await talk(head('GET', '')))).toBe('upstream_timeout');
  });

  it.each([{ bodyIdleMs: LATER }, { answerMs: SOON }])(
    'that does not read the body is abandoned: %o',
    async (limits) => {
      await start(limits, (socket) => socket.pause());
      const text = await talk(head('POST', `content-length: ${25 * 1024 * 1024}\r\n`), flood);
      expect(codeOf(text)).toBe('upstream_timeout');
    },
  );

  it('that reads a body for longer than the answer timeout is waited for', async () => {
    const [pieces, answerMs] = [8, 60_000];
    let body = '';
    await start({ answerMs }, (socket) => {
      socket.setEncoding('latin1').on('data', (text) => {
        body += text;
        if (body.endsWith('the end')) socket.write(`${OK}content-length: 2\r\n\r\nok`);
      });
    });
    const text = await talk(head('POST', `content-length: ${10 * pieces + 7}\r\n`), async (socket) => {
      // Time passes only as it does here, so that a machine that stands still makes no pause longer.
      vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
      for (let i = 0; i < pieces; i++) {
        socket.write('ten bytes.');
        while (!body.endsWith('ten bytes.'.repeat(i + 1)))
          await new Promise((resolve) => setImmediate(resolve));
        vi.advanceTimersByTime(answerMs / 4);
      }
      socket.write('the end');
    });
    expect(text).toMatch(/^HTTP\/1\.1 200 [\s\S]*ok$/);
  });

  it('that sends too many interim responses is abandoned', async () => {
    await start({}, (socket) => drip(socket, () => 'HTTP/1.1 103 Early Hints\r\n\r\n'));
    expect(codeOf(await talk(head('GET', '')))).toBe('upstream_failed');
  });

  it('that sends interim responses for too long is abandoned', async () => {
    await start({ answerMs: SOON }, (socket) =>
      socket.once('data', () => {
        const timer = setInterval(() => socket.write('HTTP/1.1 103 Early Hints\r\n\r\n'), SOON / 4);
        socket.once('close', () => clearInterval(timer));
      }),
    );
    expect(codeOf(await talk(head('GET', '')))).toBe('upstream_timeout');
  });

  it('that sends an interim response and then an answer is forwarded', async () => {
    await start({}, (socket) =>
      socket.once('data', () =>
        socket.write(`${'HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(32)}${OK}content-length: 2\r\n\r\nok`),
      ),
    );
    expect(await talk(head('GET', ''))).toMatch(/^HTTP\/1\.1 200 [\s\S]*ok$/);
  });

  it('whose head is endless is refused', async () => {
    await start({}, (socket) => {
      socket.write(OK);
      drip(socket, () => `x-more: ${'a'.repeat(8_000)}\r\n`);
    });
    expect(codeOf(await talk(head('GET', '')))).toBe('upstream_failed');
  });

  it.each(['200 OK', '103 Early Hints'])(
    'whose head of %s has too many headers is refused',
    async (status) => {
      await start({}, (socket) => {
        const many = `HTTP/1.1 ${status}\r\n${'a:\r\n'.repeat(257)}\r\n`;
        socket.once('data', () => socket.write(`${many}${OK}content-length: 2\r\n\r\nok`));
      });
      expect(codeOf(await talk(head('GET', '')))).toBe('response_unscannable');
    },
  );

  it('whose head has the maximum number of headers is forwarded', async () => {
    await start({}, (socket) =>
      socket.once('data', () => socket.write(`${OK}${'a:\r\n'.repeat(255)}content-length: 2\r\n\r\nok`)),
    );
    expect(await talk(head('GET', ''))).toMatch(/^HTTP\/1\.1 200 [\s\S]*ok$/);
  });

  it('that breaks the protocol within its body is disconnected', async () => {
    await start({}, (socket) => {
      socket.write(`${OK}transfer-encoding: chunked\r\n\r\n4\r\nhalf\r\nnonsense\r\n`);
    });
    await talk(head('GET', ''));
    expect(await told()).toMatchObject({ code: 'upstream_failed', upstream_status: 200 });
  });

  it('that stalls within its body is disconnected', async () => {
    await start({ bodyIdleMs: SOON }, (socket) => {
      socket.write(`${OK}content-length: 100\r\n\r\nhalf\n`);
    });
    expect(await talk(head('GET', ''))).toMatch(/^HTTP\/1\.1 200 [\s\S]*half\n$/);
    expect(await told()).toMatchObject({ code: 'upstream_timeout' });
  });

  it('that sends an endless answer is disconnected', async () => {
    await start({ wholeRequestMs: 2 * SOON }, (socket) => {
      socket.write(`${OK}\r\n`);
      drip(socket, () => 'on and on ');
    });
    await talk(head('GET', ''));
    expect(await told()).toMatchObject({ code: 'upstream_timeout' });
  });
});

describe('a tunnel', () => {
  it('whose ClientHello arrives too slowly is ended', async () => {
    await start({ helloMs: SOON }, () => undefined);
    const { socket } = await test.tunnel(`${HOST}:443`);
    kept(socket).resume();
    socket.write(Buffer.from([22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3]));
    drip(socket, () => Buffer.alloc(1));
    await closed(socket);
    expect(await told()).toMatchObject({ code: 'hello_timeout' });
  });

  it('whose ClientHello arrives byte by byte is accepted', async () => {
    await start({}, (socket) => socket.end('hello'));
    const { socket } = await test.tunnel(`${HOST}:443`);
    const [inner, outer] = duplexPair();
    kept(socket).setNoDelay();
    outer.on('data', (bytes: Buffer) => {
      for (const byte of bytes) socket.write(Buffer.of(byte));
    });
    socket.on('data', (bytes) => outer.write(bytes)).resume();
    const secure = kept(connectTls({ socket: inner, servername: HOST, ca: pki.authority }));
    expect(String((await once(secure, 'data'))[0])).toBe('hello');
  });

  it('whose ClientHello hides its name is ended', async () => {
    await start({}, () => undefined);
    const [inner, outer] = duplexPair();
    kept(connectTls({ socket: inner, servername: HOST }));
    const [hello] = (await once(outer, 'data')) as [Buffer];
    const { socket } = await test.tunnel(`${HOST}:443`);
    socket.write(withExtension(hello, 0xfe0d, Buffer.alloc(64)));
    const alerted = once(kept(socket), 'data') as Promise<[Buffer]>;
    socket.resume();
    const [alert] = await alerted;
    expect([...alert]).toEqual([21, 3, 1, 0, 2, 2, 47]);
    expect(await told()).toMatchObject({ code: 'ech_denied' });
  });

  it('without any data is ended', async () => {
    await start({ tunnelIdleMs: SOON }, () => undefined);
    const { socket } = await test.tunnel(`${HOST}:443`);
    const secure = kept(connectTls({ socket, servername: HOST, ca: pki.authority }));
    await closed(secure.resume());
    expect(await told()).toMatchObject({ code: 'ok' });
  });

  it('whose caller does not read is ended, and little is fetched', async () => {
    let sent: () => number = () => 0;
    await start({ tunnelIdleMs: LATER }, (socket) => {
      sent = flood(socket);
    });
    const { socket } = await test.tunnel(`${HOST}:443`);
    const secure = connectTls({ socket, servername: HOST, ca: pki.authority });
    await once(kept(secure), 'secureConnect');
    socket.pause();
    await told();
    expect(sent()).toBeGreaterThan(0);
    expect(sent()).toBeLessThan(MUCH);
  });
});

/** A ClientHello with one more extension and corrected lengths. */
function withExtension(hello: Buffer, type: number, data: Buffer): Buffer {
  const extension = Buffer.concat([
    Buffer.from([type >> 8, type & 255, data.length >> 8, data.length & 255]),
    data,
  ]);
  const bytes = Buffer.concat([hello, extension]);
  let at = 9 + 2 + 32;
  at += 1 + bytes.readUInt8(at);
  at += 2 + bytes.readUInt16BE(at);
  at += 1 + bytes.readUInt8(at);
  bytes.writeUInt16BE(bytes.readUInt16BE(at) + extension.length, at);
  bytes.writeUIntBE(bytes.readUIntBE(6, 3) + extension.length, 6, 3);
  bytes.writeUInt16BE(bytes.readUInt16BE(3) + extension.length, 3);
  return bytes;
}
