import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { boundConnections, type ConnectionRefusal, sharesByAddress } from './connections-by-address.ts';
import { portOf } from './metrics.ts';

let server: Server;
const callers = new Set<Socket>();
afterEach(() => {
  for (const socket of callers) socket.destroy();
  callers.clear();
  server?.close();
});

/** A server that says hello to everybody whom it hears of. */
async function listening(total: number, perAddress: number) {
  const refusals: ConnectionRefusal[] = [];
  const counts: number[] = [];
  server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.write('hello');
  });
  boundConnections(server, {
    total,
    shares: sharesByAddress({ total, perAddress }),
    onRefused: (reason) => void refusals.push(reason),
    onCount: (open) => void counts.push(open),
  });
  await once(server.listen(0, '0.0.0.0'), 'listening');
  return { refusals, counts };
}

/** Whether the server said hello to a new connection, or ended it unheard. */
async function call(from: string): Promise<{ socket: Socket; heard: boolean }> {
  const socket = connect({ port: portOf(server), host: '127.0.0.1', localAddress: from });
  socket.on('error', () => undefined);
  callers.add(socket);
  const heard = await new Promise<boolean>((resolve) => {
    socket.once('data', () => resolve(true)).once('close', () => resolve(false));
  });
  return { socket, heard };
}

describe('connections of a server', () => {
  it('are as many as the share of an address, the rest of its own are ended unheard, and others are served', async () => {
    const { refusals } = await listening(100, 3);
    const hostile = [];
    for (let i = 0; i < 5; i += 1) hostile.push(await call('127.0.0.2'));
    expect(hostile.map(({ heard }) => heard)).toEqual([true, true, true, false, false]);
    expect((await call('127.0.0.3')).heard).toBe(true);
    expect(refusals).toEqual(['share', 'share']);
  });

  it('are free for others once they are closed', async () => {
    const { counts } = await listening(100, 1);
    const { socket } = await call('127.0.0.2');
    expect((await call('127.0.0.2')).heard).toBe(false);
    socket.destroy();
    await vi.waitFor(() => expect(counts.at(-1)).toBe(0), 20_000);
    expect((await call('127.0.0.2')).heard).toBe(true);
  });

  it('are given up, when all are taken, by whoever has the most for whoever has fewer', async () => {
    const { refusals, counts } = await listening(8, 4);
    const greedy: Socket[] = [];
    for (const from of ['127.0.0.2', '127.0.0.3'])
      for (let i = 0; i < 4; i += 1) greedy.push((await call(from)).socket);
    expect((await call('127.0.0.4')).heard).toBe(true);
    await vi.waitFor(() => expect(greedy.filter(({ closed }) => closed)).toHaveLength(1), 20_000);
    expect(refusals).toEqual(['ceded']);
    expect(Math.max(...counts)).toBe(8);
  });

  it('are not given up for one who would then have as many', async () => {
    const { refusals } = await listening(4, 4);
    for (const from of ['127.0.0.2', '127.0.0.2', '127.0.0.3', '127.0.0.3'])
      expect((await call(from)).heard).toBe(true);
    expect((await call('127.0.0.2')).heard).toBe(false);
    expect((await call('127.0.0.4')).heard).toBe(true);
    expect(refusals).toEqual(['full', 'ceded']);
  });
});

describe('the shares of an address', () => {
  const shares = sharesByAddress({ total: 400, perAddress: 10 });

  it('are one for IPv4, also where it comes in IPv6', () => {
    expect(shares('10.1.2.3')).toEqual([{ key: '10.1.2.3', most: 10 }]);
    expect(shares('::ffff:10.1.2.3')).toEqual(shares('10.1.2.3'));
  });

  it('are its own and those of its /64 for IPv6, which may be half of all', () => {
    const [own, block, ...more] = shares('2001:db8:1:2::7');
    expect([own.most, block?.most, more]).toEqual([10, 200, []]);
    expect(shares('2001:db8:1:2:ffff::8')[1]).toEqual(block);
    expect(shares('2001:db8:1:3::7')[1]).not.toEqual(block);
    expect(shares('fe80::1%eth0')[0]).toEqual({ key: 'fe80::1', most: 10 });
  });
});
