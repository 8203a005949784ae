import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { duplexPair } from 'node:stream';
import { connect as connectTls } from 'node:tls';
import { portOf } from '@space/broker-kit';
import type { Definition } from '@space/manifests';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { makePki, type TestPki } from '../../../testing/certificates.ts';
import { eventually } from '../../../testing/eventually.ts';
import { basic, digest, makeGateway, type TestGateway } from '../testing/gateway.ts';
import { startUpstream, type TestUpstream } from '../testing/upstream.ts';
import { createBudget } from './budget.ts';
import { join } from './join.ts';
import { ANSWER_STALL_BYTES, type DataLimits, TUNNEL_STALL_BYTES } from './limits.ts';
import type { Line } from './record.ts';

/** Receivers that read nothing of what they are sent. */

const HOST = 'api.bank.org';
const DOWNLOAD: Definition = {
  host: HOST,
  routes: [{ method: 'GET', path: '/v1/rates' }],
  header: 'X-Api-Key',
};
const PODS = {
  ledger: { capsule: 'home', address: '127.0.0.2' },
  desk: { capsule: 'office', address: '127.0.0.3' },
} as const;
type Pod = keyof typeof PODS;
const principalOf = (pod: Pod) => `spc_egr_${pod.padEnd(43, 'A')}`;
const MORE_THAN_FITS = Buffer.alloc(12 * 2 ** 20, 'ab ');

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function listening(server: Server): Promise<number> {
  closers.push(() => server.close());
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return portOf(server);
}

/** A host that sends more than the network keeps, and reads nothing. */
function flooding(accepted: (socket: Socket) => void = () => undefined): Promise<number> {
  return listening(
    createServer({ pauseOnConnect: true }, (socket) => {
      closers.push(() => socket.destroy());
      socket.on('error', () => undefined).write(MORE_THAN_FITS);
      accepted(socket);
    }),
  );
}

async function start(port: number, limits: Partial<DataLimits>, authorities?: string): Promise<TestGateway> {
  const fixed = new Map([[HOST, { address: '127.0.0.1', port, ttl: 60, trusted: true as const }]]);
  const test = await makeGateway({ fixed, limits, ...(authorities === undefined ? {} : { authorities }) });
  closers.push(() => test.close());
  for (const [pod, { capsule, address }] of Object.entries(PODS)) {
    const whose = { capsule_id: capsule, app_id: pod, assistant_uid: `uid-${pod}` };
    const principals = [digest(principalOf(pod as Pod))];
    await test.put({ ...whose, principals, addresses: [address], allowed_hosts: [HOST] }, { key: DOWNLOAD });
  }
  return test;
}

/** Sends it, and reads the head of the answer. */
async function ask(test: TestGateway, pod: Pod, bytes: string): Promise<Socket> {
  const socket = connect({ port: test.port, host: '127.0.0.1', localAddress: PODS[pod].address });
  closers.push(() => socket.destroy());
  socket.on('error', () => undefined).write(bytes);
  const [head] = await once(socket, 'data');
  socket.pause();
  expect(String(head)).toMatch(/^HTTP\/1\.1 200 /);
  return socket;
}

/** The first bytes of a TLS client that names the host. */
async function clientHello(): Promise<Buffer> {
  const [client, server] = duplexPair();
  const socket = connectTls({ socket: client, servername: HOST }).on('error', () => undefined);
  const [bytes] = await once(server, 'data');
  socket.destroy();
  return bytes;
}

async function tunnel(test: TestGateway, pod: Pod): Promise<Socket> {
  const auth = `proxy-authorization: ${basic(principalOf(pod))}`;
  const socket = await ask(test, pod, `CONNECT ${HOST}:443 HTTP/1.1\r\nhost: ${HOST}:443\r\n${auth}\r\n\r\n`);
  socket.write(await clientHello());
  return socket;
}

const metric = async (test: TestGateway, name: string) => {
  const text = await test.registry.metrics();
  return Number(
    text
      .split('\n')
      .find((line) => line.startsWith(name))
      ?.slice(name.length + 1) ?? 0,
  );
};
const ended = (test: TestGateway) =>
  metric(test, 'space_egress_share_refused_total{resource="stalledBytes",reason="full"}');
const lines = (test: TestGateway) => test.log.map((line) => JSON.parse(line));

describe('bytes that no receiver reads', () => {
  it('are limited: the transfer that has waited longest in the Capsule with most of them ends', () => {
    const over: string[] = [];
    const stalls = createBudget(3, () => over.push('told'));
    const begin = (capsule: string, name: string, bytes = 1) =>
      stalls.hold(capsule, bytes, () => over.push(name));
    begin('office', 'desk');
    const first = begin('home', 'first');
    begin('home', 'second');
    begin('home', 'third');
    expect(over).toEqual(['told', 'first']);
    first();
    begin('home', 'fourth')();
    expect(over).toEqual(['told', 'first', 'told', 'second']);
    begin('market', 'shop');
    begin('office', 'large', 2);
    expect(over.slice(4)).toEqual(['told', 'desk', 'told', 'large']);
  });

  it('are at most as many in a tunnel as counted, in each direction', async () => {
    const sockets: Socket[] = [];
    const host = await flooding();
    const callers = await listening(
      createServer((socket) => {
        sockets.push(socket);
      }),
    );
    const caller = connect(callers, '127.0.0.1').pause();
    caller.on('error', () => undefined).write(MORE_THAN_FITS);
    closers.push(() => caller.destroy());
    const [client] = await eventually(() => sockets.length > 0 && sockets, { what: 'the caller' });
    const upstream = connect(host, '127.0.0.1');
    await once(upstream, 'connect');
    let stalls = 0;
    const stalled = () => {
      stalls += 1;
      return () => {
        stalls -= 1;
      };
    };
    const line = { bytesIn: 0, bytesOut: 0 } as Line;
    const passing = { isShared: () => false, inTurn: (act: () => void) => act() };
    const done = join(client!, upstream, Buffer.from('x'), { idleMs: 60_000, line, stalled, passing });
    const kept = () => [client!, upstream].map((one) => one.readableLength + one.writableLength);
    // Both are read until nothing more is.
    await eventually(() => stalls === 2 && kept().every((bytes) => bytes > 64 * 1024), {
      what: 'both directions to stand still',
    });
    for (const bytes of kept()) expect(bytes).toBeLessThanOrEqual(TUNNEL_STALL_BYTES);
    client!.destroy();
    upstream.destroy();
    await done;
    expect(stalls).toBe(0);
  });
});

describe('of tunnels whose callers read nothing', () => {
  it('those of a Capsule end when there are too many, the longest silent first, and those of another continue', async () => {
    const port = await flooding();
    const test = await start(port, { stalledBytes: 3 * TUNNEL_STALL_BYTES });
    const other = await tunnel(test, 'desk');
    const own: Socket[] = [];
    for (let i = 0; i < 5; i += 1) {
      own.push(await tunnel(test, 'ledger'));
      if (i < 2) continue;
      await eventually(async () => (await ended(test)) === i - 1, { what: `the end of ${i - 1} of them` });
    }
    await eventually(() => lines(test).filter(({ code }) => code === 'unavailable').length === 3, {
      what: 'their lines',
    });
    expect(lines(test).map(({ capsule }) => capsule)).toEqual(['home', 'home', 'home']);
    expect(await metric(test, 'space_egress_open{operation="connect"}')).toBe(3);
    let read = 0;
    other.on('data', (bytes: Buffer) => {
      read += bytes.length;
    });
    other.resume();
    await eventually(() => read === MORE_THAN_FITS.length, { what: 'all of the other one' });
  });
});

describe('of answers whose callers read nothing', () => {
  let pki: TestPki;
  let upstream: TestUpstream;
  beforeAll(async () => {
    pki = await makePki();
    upstream = await startUpstream(await pki.issue(HOST));
    upstream.answer = (_, response) => response.end(MORE_THAN_FITS);
  });
  afterAll(async () => {
    await upstream?.close();
    await pki?.remove();
  });

  it('those of a Capsule end when there are too many, and those of another continue', async () => {
    const test = await start(upstream.port, { stalledBytes: 2 * ANSWER_STALL_BYTES }, pki.authority);
    const get = (pod: Pod) =>
      ask(
        test,
        pod,
        `GET /i/key/v1/rates HTTP/1.1\r\nhost: assistant-egress\r\nauthorization: Bearer ${principalOf(pod)}\r\n\r\n`,
      );
    const other = await get('desk');
    for (let i = 0; i < 3; i += 1) await get('ledger');
    await eventually(async () => (await ended(test)) === 2, { what: 'the end of two of them' });
    await eventually(() => lines(test).length === 2, { what: 'their lines' });
    expect(lines(test).map(({ capsule, code }) => [capsule, code])).toEqual([
      ['home', 'unavailable'],
      ['home', 'unavailable'],
    ]);
    let read = 0;
    other.on('data', (bytes: Buffer) => {
      read += bytes.length;
    });
    other.resume();
    await eventually(() => read > MORE_THAN_FITS.length - 64 * 1024, { what: 'all of the other one' });
  });
});
