import { connect, type Socket } from 'node:net';
import { newToken } from '@space/broker-kit';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { eventually } from '../../testing/eventually.ts';
import { type EmbeddedServer, startEmbeddedServer } from '../../testing/postgres/server.ts';
import { type Client, client, type Mounts, mountFiles } from './testing/broker.ts';
import { type BrokerProcess, type BrokerProgram, bundleBroker } from './testing/process.ts';

/** A broker in a process of its own, as in service, among callers that mean it ill. */

let server: EmbeddedServer;
let mounts: Mounts;
let program: BrokerProgram;
let broker: BrokerProcess;
let principal: string;
let healthy: Client;
beforeAll(async () => {
  server = await startEmbeddedServer({ durable: false });
  mounts = mountFiles(server);
  program = await bundleBroker();
  broker = await program.spawn({ ...mounts.environment, SPARE_DATABASES: '1' });
  principal = newToken('dbp').reveal();
  await client(broker.url, mounts.provisioner).provision('home', principal);
  healthy = client(broker.url, principal);
});
afterAll(async () => {
  await broker?.kill();
  program?.remove();
  mounts?.remove();
  await server?.remove();
});

/**
 * Opens so many connections, says the same on each and reads nothing until told to; from so many addresses that none
 * of them has more than its share.
 */
function flood(count: number, bytes: string | Buffer): Set<Socket> {
  const { hostname: host, port } = new URL(broker.url);
  const sockets = new Set<Socket>();
  for (let i = 0; i < count; i += 1) {
    const socket = connect({ host, port: Number(port), localAddress: `127.0.1.${1 + (i % 30)}` });
    sockets.add(socket);
    socket.on('error', () => undefined).on('close', () => sockets.delete(socket));
    socket.on('connect', () => socket.write(bytes));
  }
  return sockets;
}

/** A well-behaved caller is served if it retries when it is told to. */
async function served(): Promise<void> {
  const statuses: number[] = [];
  await eventually(
    async () => {
      statuses.push((await healthy.create('home', 'app')).status);
      return statuses.at(-1) !== 503;
    },
    { what: 'an answer that is no 503' },
  );
  expect(statuses.at(-1)).toBe(200);
}

const MEBIBYTE = 2 ** 20;

/** Bytes that the broker still holds, once that is no longer less than a moment ago. */
async function settled(): Promise<number> {
  let before = Number.POSITIVE_INFINITY;
  let held = await broker.held();
  await eventually(
    async () => {
      before = held;
      held = await broker.held();
      return held > before - MEBIBYTE / 50;
    },
    { what: 'the broker to let go' },
  );
  return held;
}

const hearAll = (sockets: Set<Socket>) => {
  for (const socket of sockets) socket.resume();
};

const HEAD = 'POST /v1/capsules/apps/create HTTP/1.1\r\nHost: x\r\n';
const REFUSED = `${HEAD}Content-Length: 0\r\n\r\n`;

function wave(): Set<Socket>[] {
  const authorised = `${HEAD}Authorization: Bearer ${principal}\r\nContent-Type: application/json\r\n`;
  return [
    flood(1_000, HEAD),
    flood(300, `${HEAD}X: ${'x'.repeat(64 * 1024)}`),
    flood(300, `${authorised}Content-Length: 16000\r\n\r\n{"capsule_id":"${'a'.repeat(12_000)}`),
    flood(300, Buffer.alloc(256 * 1024, 0xff)),
    flood(50, REFUSED.repeat(200)),
  ];
}

it('half-open, slow, oversized, garbled and pipelined requests are ended, block no other caller and leave nothing', async () => {
  const held: number[] = [];
  for (let round = 0; round < 2; round += 1) {
    const floods = wave();
    await served();
    for (const sockets of floods) hearAll(sockets);
    await eventually(() => floods.every(({ size }) => size === 0), { what: 'the broker to end them all' });
    await served();
    held.push(await settled());
  }
  const [first = 0, second = 0] = held;
  // If requests stayed, it would be six times as much.
  expect(second - first).toBeLessThan(MEBIBYTE);
});

it('a request that arrives before the previous one was answered ends the connection', async () => {
  const sockets = flood(1, REFUSED.repeat(2));
  let text = '';
  for (const socket of sockets) socket.on('data', (chunk) => (text += chunk));
  await eventually(() => sockets.size === 0, { what: 'the broker to end it' });
  expect(text.split('HTTP/1.1 ').length - 1).toBeLessThan(2);
  await served();
});

it('connections beyond the limit are closed without reading a request, and those of an address with few are served, old ones and new', async () => {
  const kept = connect(Number(new URL(broker.url).port), '127.0.0.1').on('error', () => undefined);
  let text = '';
  kept.on('data', (chunk) => {
    text += chunk;
  });
  kept.write('GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n');
  await eventually(() => text.includes('"ok"'), { what: 'the first answer' });
  const sockets = flood(4_200, 'GET /healthz HTTP/1.1\r\n');
  await eventually(() => sockets.size < 4_200, { what: 'some to be closed' });
  text = '';
  kept.write('GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n');
  await eventually(() => text.includes('"ok"'), { what: 'the second answer' });
  kept.destroy();
  await served();
  hearAll(sockets);
  await eventually(() => sockets.size === 0, { what: 'the broker to end the rest' });
  await served();
});
