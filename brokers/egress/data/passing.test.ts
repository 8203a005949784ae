import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { duplexPair } from 'node:stream';
import { connect as connectTls } from 'node:tls';
import { portOf, Turns } from '@space/broker-kit';
import type { Definition } from '@space/manifests';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { makePki, type TestPki } from '../../../testing/certificates.ts';
import { eventually } from '../../../testing/eventually.ts';
import { basic, digest, makeGateway, type TestGateway } from '../testing/gateway.ts';
import { startUpstream, type TestUpstream } from '../testing/upstream.ts';
import { join } from './join.ts';
import type { Line } from './record.ts';

/** Tunnels and bodies of one Capsule, beside another one that may have to wait for them; what is counted is turns, not time. */

const API = 'api.bank.org';
const RAW = 'raw.bank.org';
const MIB = 2 ** 20;
const UPLOAD: Definition = {
  host: API,
  routes: [{ method: 'POST', path: '/v1/files' }],
  header: 'X-Api-Key',
};
const PODS = {
  ledger: { capsule: 'home', address: '127.0.0.2' },
  desk: { capsule: 'office', address: '127.0.0.3' },
} as const;
type Pod = keyof typeof PODS;
const principalOf = (pod: Pod) => `spc_egr_${pod.padEnd(43, 'A')}`;

let pki: TestPki;
let api: TestUpstream;
let echo: Server;
let test: TestGateway;
const sockets: Socket[] = [];

beforeAll(async () => {
  pki = await makePki();
  api = await startUpstream(await pki.issue(API));
  echo = createServer((socket) => {
    sockets.push(socket);
    socket.on('error', () => undefined).pipe(socket);
  });
  await once(echo.listen(0, '127.0.0.1'), 'listening');
});
afterAll(async () => {
  echo.close();
  await api.close();
  pki.remove();
});
afterEach(async () => {
  vi.restoreAllMocks();
  for (const socket of sockets.splice(0)) socket.destroy();
  await test?.close();
});

async function start(): Promise<void> {
  const at = (port: number) => ({ address: '127.0.0.1', port, ttl: 60, trusted: true as const });
  const fixed = new Map([
    [API, at(api.port)],
    [RAW, at(portOf(echo))],
  ]);
  test = await makeGateway({ fixed, authorities: pki.authority });
  for (const [pod, { capsule, address }] of Object.entries(PODS)) {
    const whose = { capsule_id: capsule, app_id: pod, assistant_uid: `uid-${pod}` };
    const principals = [digest(principalOf(pod as Pod))];
    await test.put({ ...whose, principals, addresses: [address], allowed_hosts: [RAW] }, { files: UPLOAD });
  }
}

async function send(pod: Pod, bytes: string | Buffer): Promise<Socket> {
  const socket = connect({ port: test.port, host: '127.0.0.1', localAddress: PODS[pod].address });
  sockets.push(socket);
  socket.on('error', () => undefined).write(bytes);
  const [head] = await once(socket, 'data');
  expect(String(head)).toMatch(/^HTTP\/1\.1 200 /);
  return socket;
}

const upload = (pod: Pod, bytes: number) =>
  send(
    pod,
    `POST /i/files/v1/files HTTP/1.1\r\nhost: assistant-egress\r\nauthorization: Bearer ${principalOf(pod)}\r\ncontent-length: ${bytes}\r\n\r\n${'b'.repeat(bytes)}`,
  );

/** The first bytes of a TLS client that names the host. */
async function clientHello(): Promise<Buffer> {
  const [client, server] = duplexPair();
  const socket = connectTls({ socket: client, servername: RAW }).on('error', () => undefined);
  const [bytes] = await once(server, 'data');
  socket.destroy();
  return bytes;
}

/** Sends this many bytes through a tunnel, and waits until they have come back. */
async function exchange(pod: Pod, bytes: number): Promise<void> {
  const auth = `proxy-authorization: ${basic(principalOf(pod))}`;
  const socket = await send(pod, `CONNECT ${RAW}:443 HTTP/1.1\r\n${auth}\r\n\r\n`);
  const sent = Buffer.concat([await clientHello(), Buffer.alloc(bytes, 'abc')]);
  const back: Buffer[] = [];
  socket.on('data', (piece: Buffer) => back.push(piece));
  socket.end(sent);
  await once(socket, 'end');
  expect(Buffer.concat(back).equals(sent)).toBe(true);
}

/** Capsules in the order of the turns that they take from now on. */
function turns(): string[] {
  const keys: string[] = [];
  const run = Turns.prototype.run;
  vi.spyOn(Turns.prototype, 'run').mockImplementation(function (this: Turns, key, act) {
    keys.push(key);
    return Reflect.apply(run, this, [key, act]);
  });
  return keys;
}

describe.each([
  ['a tunnel', (bytes: number) => exchange('ledger', bytes), () => exchange('desk', 1)],
  ['the body of a request', (bytes: number) => upload('ledger', bytes), () => upload('desk', 1)],
])('the bytes of %s', (_, begin, other) => {
  it('wait for no turn while their Capsule is alone', async () => {
    await start();
    const keys = turns();
    await begin(4 * MIB);
    expect(keys).toEqual([]);
  });

  it('take turns with another Capsule that was there a moment ago', async () => {
    await start();
    await other();
    const keys = turns();
    await begin(4 * MIB);
    expect(new Set(keys)).toEqual(new Set(['home']));
    // A piece is what is read at once.
    expect(keys.length).toBeGreaterThan(16);
  });
});

it('a body in chunks of a byte owes the time that each of its segments was parsed for, from the first one on', async () => {
  await start();
  await upload('desk', 1);
  const owed: number[] = [];
  const run = Turns.prototype.run;
  vi.spyOn(Turns.prototype, 'run').mockImplementation(function (this: Turns, key, act, owedMs = 0) {
    owed.push(owedMs);
    return Reflect.apply(run, this, [key, act, owedMs]);
  });
  const chunks = 30_000;
  const auth = `authorization: Bearer ${principalOf('ledger')}`;
  await send(
    'ledger',
    `POST /i/files/v1/files HTTP/1.1\r\nhost: assistant-egress\r\n${auth}\r\ntransfer-encoding: chunked\r\n\r\n${'1\r\nx\r\n'.repeat(chunks)}0\r\n\r\n`,
  );
  // What comes with the head may be so little that nothing is owed for it.
  expect(owed.reduce((sum, ms) => sum + ms, 0)).toBeGreaterThan((chunks - 1_100) * 0.0007);
  expect(Math.max(...owed)).toBeGreaterThan(0.5);
});

describe('in a tunnel that shares the processor', () => {
  async function opened() {
    const acts: (() => void)[] = [];
    const [client, caller] = duplexPair();
    const [upstream, host] = duplexPair();
    const passing = { isShared: () => true, inTurn: (act: () => void) => void acts.push(act) };
    const line = { bytesIn: 0, bytesOut: 0 } as Line;
    const joining = { idleMs: 60_000, line, stalled: () => () => undefined, passing };
    const done = join(client as unknown as Socket, upstream as unknown as Socket, Buffer.alloc(0), joining);
    let got = '';
    caller.on('data', (piece) => {
      got += piece;
    });
    return { acts, caller, upstream, host, done, got: () => got };
  }
  const waiting = (acts: readonly unknown[]) => eventually(() => acts.length === 1, { what: 'a turn' });

  it('a turn passes one piece, and the side is not read until then', async () => {
    const { acts, caller, upstream, host, done, got } = await opened();
    const text = Array.from({ length: 40 }, (_, i) => String.fromCharCode(65 + i).repeat(16_000));
    for (const piece of text) host.write(piece);
    host.end();
    for (const [i] of text.entries()) {
      await waiting(acts);
      expect(got()).toBe(text.slice(0, i).join(''));
      expect(upstream.readableLength).toBeLessThan(128 * 1024);
      acts.shift()?.();
      await eventually(() => got().length === (i + 1) * 16_000, { what: 'the piece' });
    }
    caller.end();
    await done;
    expect(got()).toBe(text.join(''));
  });

  it('a piece that waits for its turn when its side closes is sent before the end', async () => {
    const { acts, caller, upstream, host, done, got } = await opened();
    host.write('last words');
    await waiting(acts);
    upstream.destroy();
    await once(upstream, 'close');
    expect(got()).toBe('');
    acts.shift()?.();
    await once(caller, 'end');
    expect(got()).toBe('last words');
    caller.destroy();
    await done;
  });
});
