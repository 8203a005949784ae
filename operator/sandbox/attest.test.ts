/** The attester's question about walls, compiled as its image has it, against listeners of this machine. */
import { execFileSync, spawn } from 'node:child_process';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { freePort } from '../../testing/ports.ts';

const HERE = join(import.meta.dirname, 'attester');

/**
 * What a pod does in its first milliseconds, without gVisor, which a test does not run in; and a port that drops whatever
 * comes to it, as a wall does: its queue is full, and nobody takes anything out.
 */
const HARNESS = `
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "walls.h"
int main(int count, char **arguments) {
  if (strcmp(arguments[1], "drop") != 0) return walls_await(count - 1, arguments + 1);
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof at;
  int door = socket(AF_INET, SOCK_STREAM, 0);
  bind(door, (struct sockaddr *)&at, sizeof at);
  listen(door, 0);
  getsockname(door, (struct sockaddr *)&at, &length);
  for (int i = 0; i < 4; i++) connect(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), (struct sockaddr *)&at, length);
  printf("%d\\n", ntohs(at.sin_port));
  fflush(stdout);
  return pause();
}
`;

let place: string;
let attest: string;
let harness: string;
let dropping: { readonly port: number; readonly end: () => void };

function compile(output: string, ...sources: readonly string[]): string {
  const flags = ['-Wall', '-Wextra', '-Werror', '-static', '-I', HERE];
  execFileSync('gcc', [...flags, '-o', output, ...sources, join(HERE, 'walls.c')]);
  return output;
}

beforeAll(async () => {
  place = mkdtempSync(join(tmpdir(), 'walls-'));
  const source = join(place, 'harness.c');
  writeFileSync(source, HARNESS);
  attest = compile(join(place, 'attest'), join(HERE, 'attest.c'));
  harness = compile(join(place, 'harness'), source);
  const child = spawn(harness, ['drop'], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [port] = await once(createInterface({ input: child.stdout }), 'line');
  dropping = { port: Number(port), end: () => void child.kill('SIGKILL') };
});
afterAll(() => {
  dropping?.end();
  rmSync(place, { recursive: true, force: true });
});

async function run(program: string, ...args: readonly string[]) {
  const child = spawn(program, args, { stdio: ['ignore', 'ignore', 'pipe'] });
  let said = '';
  child.stderr.on('data', (chunk) => {
    said += chunk;
  });
  const [code] = await once(child, 'close');
  return { code, said };
}
const prove = (...targets: readonly string[]) => run(attest, 'prove', ...targets);
const awaitWalls = (...targets: readonly string[]) => run(harness, ...targets);

/** A listener that takes what comes. */
async function open(port = 0) {
  const server = createServer((socket) => socket.destroy()).listen(port, '127.0.0.1');
  await once(server, 'listening');
  return { port: (server.address() as AddressInfo).port, close: () => void server.close() };
}
/** A UDP server that sends this back, or what it received. */
async function answering(answer?: Buffer) {
  const socket = createSocket('udp4');
  socket.on('message', (said, { port, address }) => socket.send(answer ?? said, port, address));
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  return { port: socket.address().port, close: () => void socket.close() };
}
const at = (port: number, address = '127.0.0.1') => `${address}:${port}`;

describe.concurrent('the record of a node', () => {
  test('says that network policies are enforced if all allowed targets answer, and nothing else does', async () => {
    const { port, close } = await open();
    const found = await prove(`+store=${at(port)}`, `-a=${at(dropping.port)}`, `-b=${at(await freePort())}`);
    expect(found).toEqual({ code: 0, said: '' });
    close();
  });

  test('names the target that was reached, with the one of several addresses', async () => {
    const [store, one] = [await open(), await open()];
    const found = await prove(
      `+store=${at(store.port)}`,
      `-the canary=${at(dropping.port)}`,
      `-its node=127.0.0.1,::1:${one.port}`,
    );
    expect(found).toEqual({ code: 3, said: `reached: its node (127.0.0.1 port ${one.port})\n` });
    store.close();
    one.close();
  });

  test('names an IPv6 address that answers where only the IPv4 one is closed', async () => {
    const store = await open();
    const six = createServer((socket) => socket.end()).listen(0, '::1');
    await once(six, 'listening');
    const { port } = six.address() as AddressInfo;
    const found = await prove(`+store=${at(store.port)}`, `-its node=127.0.0.1,::1:${port}`);
    expect(found).toEqual({ code: 3, said: `reached: its node (::1 port ${port})\n` });
    six.close();
    store.close();
  });

  test('names a target that answers only over UDP, such as a DNS server', async () => {
    const [store, canary] = [await open(), await answering(Buffer.from([0, 1, 0x81, 0x80]))];
    const found = await prove(
      `+store=${at(store.port)}`,
      `-its DNS server=${at(canary.port)}/udp`,
      `-the canary=${at(await freePort())}/udp`,
    );
    expect(found).toEqual({ code: 3, said: `reached: its DNS server (127.0.0.1 UDP port ${canary.port})\n` });
    canary.close();
    store.close();
  });

  /** What a DNS server answers by itself; for all else it waits for its upstream, which is unavailable. */
  test.each<[string, (said: Buffer) => boolean]>([
    ['refuses how it is asked, as CoreDNS and Unbound do', (said) => (said[2] ?? 0) >> 3 === 2],
    ['knows its version, as dnsmasq does', (said) => said.includes('version')],
    ['knows the root', (said) => (said[2] ?? 0) >> 3 === 0 && said.length === 17],
  ])('names a DNS server without an upstream, and %s', async (_, knows) => {
    const store = await open();
    const socket = createSocket('udp4');
    socket.on('message', (said, { port, address }) => {
      const answer = Buffer.concat([said.subarray(0, 2), Buffer.from([0x81, 0x84]), said.subarray(4)]);
      if (knows(said)) socket.send(answer, port, address);
    });
    socket.bind(0, '127.0.0.1');
    await once(socket, 'listening');
    const { port } = socket.address();
    const found = await prove(`+store=${at(store.port)}`, `-its DNS server=${at(port)}/udp`);
    expect(found).toEqual({ code: 3, said: `reached: its DNS server (127.0.0.1 UDP port ${port})\n` });
    socket.close();
    store.close();
  });

  test('does not count a query that is echoed as an answer', async () => {
    const [store, mirror] = [await open(), await answering()];
    const found = await prove(`+store=${at(store.port)}`, `-a=${at(mirror.port)}/udp`);
    expect(found).toEqual({ code: 0, said: '' });
    mirror.close();
    store.close();
  });

  test('is no result if the allowed targets do not answer, since a pod without a network proves nothing', async () => {
    const away = await freePort();
    const found = await prove(`+store=${at(away)}`, `-a=${at(dropping.port)}`);
    expect(found).toEqual({ code: 4, said: `not reached: store (127.0.0.1 port ${away})\n` });
  });

  test('waits for the allowed targets to answer', async () => {
    const port = await freePort();
    const found = prove(`+store=${at(port)}`, `-a=${at(dropping.port)}`);
    await new Promise((resolve) => setTimeout(resolve, 500));
    const { close } = await open(port);
    expect(await found).toEqual({ code: 0, said: '' });
    close();
  });

  test.each([
    'store',
    '+store',
    '+store=127.0.0.1',
    '+store=:5432',
    '+store=127.0.0.1:0',
    '+store=127.0.0.1:99999',
    // As the kubelet leaves what it knows nothing of.
    '-the API server=$(KUBERNETES_SERVICE_HOST):$(KUBERNETES_SERVICE_PORT)',
    '+store=postgres:5432',
    '+store=127.0.0.1:5432/sctp',
    '+store=127.0.0.1:/udp',
  ])('refuses the target %s', async (target) => {
    expect(await prove(target)).toEqual({ code: 2, said: `no target: ${target}\n` });
  });
});

describe.concurrent('a pod before tenant code', () => {
  test('continues when the allowed target has answered and the canary has not', async () => {
    const { port, close } = await open();
    expect(await awaitWalls(`-the canary=${at(dropping.port)}`, `+store=${at(port)}`)).toEqual({
      code: 0,
      said: '',
    });
    close();
  });

  test('continues if the allowed target is unavailable and the canary stays silent', async () => {
    const found = await awaitWalls(`-the canary=${at(dropping.port)}`, `+store=${at(await freePort())}`);
    expect(found).toEqual({ code: 0, said: '' });
  });

  test('does not count silence as enforcement before anything could be reached', async () => {
    const [canary, store] = [await freePort(), await freePort()];
    const found = awaitWalls(`-the canary=${at(canary)}`, `+store=${at(store)}`);
    // The pod's network begins, and its plugin closes nothing.
    await new Promise((resolve) => setTimeout(resolve, 2000));
    const opened = [await open(canary), await open(store)];
    expect(await found).toEqual({ code: 3, said: `reached: the canary (127.0.0.1 port ${canary})\n` });
    for (const { close } of opened) close();
  });

  test('waits while the canary answers, and continues once it does not', async () => {
    const [canary, store] = [await open(), await open()];
    const found = awaitWalls(`-the canary=${at(canary.port)}`, `+store=${at(store.port)}`);
    let over = false;
    found.then(() => {
      over = true;
    });
    await new Promise((resolve) => setTimeout(resolve, 1000));
    expect(over).toBe(false);
    canary.close();
    expect(await found).toEqual({ code: 0, said: '' });
    store.close();
  });

  test('fails with the reason if the canary keeps answering', async () => {
    const [canary, store] = [await open(), await open()];
    expect(await awaitWalls(`-the canary=${at(canary.port)}`, `+store=${at(store.port)}`)).toEqual({
      code: 3,
      said: `reached: the canary (127.0.0.1 port ${canary.port})\n`,
    });
    canary.close();
    store.close();
  });
});

describe('the canary', () => {
  test('accepts and closes every connection on each of its ports, and ends when told to', async () => {
    const ports = [await freePort(), await freePort()];
    const child = spawn(attest, ['listen', ...ports.map(String)], { stdio: 'inherit' });
    onTestFinished(() => void child.kill('SIGKILL'));
    const ended = once(child, 'exit');
    for (const port of [...ports, ...ports]) {
      await expect.poll(() => reached(port), { timeout: 240_000 }).toBe(true);
    }
    child.kill('SIGTERM');
    expect(await ended).toEqual([0, null]);
  });

  test('answers a query over UDP, and never answers an answer', async () => {
    const port = await freePort();
    const child = spawn(attest, ['listen', `${port}/udp`], { stdio: 'inherit' });
    onTestFinished(() => void child.kill('SIGKILL'));
    const ended = once(child, 'exit');
    await expect
      .poll(() => prove(`+the canary=${at(port)}/udp`), { timeout: 240_000 })
      .toEqual({ code: 0, said: '' });
    const socket = createSocket('udp4');
    const heard: Buffer[] = [];
    socket.on('message', (said) => heard.push(said));
    const [answer, question] = [Buffer.from([7, 7, 0x80]), Buffer.from([8, 8, 0])];
    for (const said of [answer, Buffer.from([9, 9]), question]) socket.send(said, port, '127.0.0.1');
    await expect.poll(() => heard, { timeout: 240_000 }).toEqual([Buffer.from([8, 8, 0x80])]);
    socket.close();
    child.kill('SIGTERM');
    expect(await ended).toEqual([0, null]);
  });

  test('does not start without a port', async () => {
    expect(await run(attest, 'listen')).toMatchObject({ code: 2 });
    expect(await run(attest, 'listen', 'all')).toMatchObject({ code: 2 });
    expect(await run(attest, 'listen', '7001/sctp')).toMatchObject({ code: 2 });
  });
});

test('an unknown command is refused', async () => {
  expect(await run(attest, 'no')).toMatchObject({ code: 2, said: expect.stringContaining('usage') });
});

/** Whether a connection was taken, and then ended by the other side. */
const reached = (port: number) =>
  new Promise<boolean>((resolve) => {
    const socket = connect(port, '127.0.0.1').resume();
    socket.on('error', () => resolve(false));
    socket.on('end', () => resolve(true));
  });
