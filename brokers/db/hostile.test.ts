import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { newToken } from '@space/broker-kit';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type EmbeddedServer, startEmbeddedServer } from './embedded/server.ts';
import { type Client, client, type Mounts, mountFiles } from './testing/broker.ts';
import { until } from './testing/postgres.ts';
import { type BrokerProcess, type BrokerProgram, bundleBroker } from './testing/process.ts';

/** A broker in a process of its own, so that its memory is its own too, among callers that mean it ill. */

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

/** MiB that the broker holds. */
const held = () =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${broker.pid}/status`, 'utf8'))?.[1]) / 1024;

/** Opens so many connections, says the same on each and reads nothing until told to. */
function flood(count: number, bytes: string | Buffer): Set<Socket> {
  const { hostname, port } = new URL(broker.url);
  const sockets = new Set<Socket>();
  for (let i = 0; i < count; i += 1) {
    const socket = connect(Number(port), hostname);
    sockets.add(socket);
    socket.on('error', () => undefined).on('close', () => sockets.delete(socket));
    socket.on('connect', () => socket.write(bytes));
  }
  return sockets;
}

/** Whoever means it well is served, if he comes again when he is told to. */
async function served(): Promise<void> {
  const statuses: number[] = [];
  await until(async () => {
    statuses.push((await healthy.create('home', 'app')).status);
    return statuses.at(-1) !== 503;
  }, 'an answer that is no 503');
  expect(statuses.at(-1)).toBe(200);
}

const hearAll = (sockets: Set<Socket>) => {
  for (const socket of sockets) socket.resume();
};

function wave(): Set<Socket>[] {
  const head = 'POST /v1/capsules/apps/create HTTP/1.1\r\nHost: x\r\n';
  const authorised = `${head}Authorization: Bearer ${principal}\r\nContent-Type: application/json\r\n`;
  const refused = `${head}Content-Length: 0\r\n\r\n`;
  return [
    flood(1_000, head),
    flood(300, `${head}X: ${'x'.repeat(64 * 1024)}`),
    flood(300, `${authorised}Content-Length: 16000\r\n\r\n{"capsule_id":"${'a'.repeat(12_000)}`),
    flood(300, Buffer.alloc(256 * 1024, 0xff)),
    flood(50, `${refused.repeat(199)}${head}Connection: close\r\nContent-Length: 0\r\n\r\n`),
  ];
}

it('half-open, slow, oversized, garbled and pipelined requests end, cost no lasting memory, and keep nobody waiting', async () => {
  const after: number[] = [];
  let most = 0;
  for (let round = 0; round < 3; round += 1) {
    const floods = wave();
    await served();
    most = Math.max(most, held());
    for (const sockets of floods) hearAll(sockets);
    await until(() => {
      most = Math.max(most, held());
      return floods.every(({ size }) => size === 0);
    }, 'the broker to end them all');
    await served();
    after.push(held());
  }
  // What the first round taught the allocator is kept; what each round leaves would be some thousand requests' worth.
  const [first = 0, , last = 0] = after;
  expect(last - first).toBeLessThan(32);
  // The chart's limit is 256.
  expect(most).toBeLessThan(200);
});

it('connections beyond the limit are closed unheard, and those that were there are served', async () => {
  const kept = connect(Number(new URL(broker.url).port), '127.0.0.1');
  let text = '';
  kept.on('data', (chunk) => {
    text += chunk;
  });
  kept.write('GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n');
  await until(() => text.includes('"ok"'), 'the first answer');
  const sockets = flood(4_200, 'GET /healthz HTTP/1.1\r\n');
  await until(() => sockets.size < 4_200, 'some to be closed');
  text = '';
  kept.write('GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n');
  await until(() => text.includes('"ok"'), 'the second answer');
  kept.destroy();
  hearAll(sockets);
  await until(() => sockets.size === 0, 'the broker to end the rest');
  await served();
});
