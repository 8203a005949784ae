import { once } from 'node:events';
import { connect, createServer, type Server, Socket } from 'node:net';
import { afterEach, describe, expect, it, vi } from 'vitest';
import {
  boundConnections,
  type ConnectionRefusal,
  type ConnectionShare,
  sharesByAddress,
} from './connections-by-address.ts';
import { portOf } from './metrics.ts';

let server: Server;
const callers = new Set<Socket>();
afterEach(() => {
  for (const socket of callers) socket.destroy();
  callers.clear();
  vi.restoreAllMocks();
  server?.close();
});

/** A server that sends a greeting on every connection that it gets. */
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

/** Whether the server greeted a new connection, or closed it at once. */
async function call(from: string): Promise<{ socket: Socket; heard: boolean }> {
  const socket = connect({ port: portOf(server), host: '127.0.0.1', localAddress: from });
  socket.on('error', () => undefined);
  callers.add(socket);
  const heard = await new Promise<boolean>((resolve) => {
    socket.once('data', () => resolve(true)).once('close', () => resolve(false));
  });
  return { socket, heard };
}

describe('a connection', () => {
  /** A server without a port, and connections with given addresses. */
  function bounded(total: number, most: Readonly<Record<string, number>>) {
    const made = createServer();
    const heard: unknown[] = [];
    made.on('connection', (socket) => heard.push(socket));
    const refusals: ConnectionRefusal[] = [];
    const maps = vi.spyOn(Map.prototype, 'set');
    boundConnections(made, {
      total,
      // Each letter of an address is a counter.
      shares: (address) => {
        const [first = '', ...more] = [...address].map((key) => ({ key, most: most[key] ?? 100 }));
        return [first as ConnectionShare, ...more];
      },
      onRefused: (reason) => void refusals.push(reason),
    });
    const from = (address: string | undefined) => {
      const socket = new Socket();
      Object.defineProperty(socket, 'remoteAddress', { value: address });
      made.emit('connection', socket);
      return { socket, heard: heard.includes(socket) };
    };
    const kept = () => new Set(maps.mock.contexts as Map<unknown, unknown>[]);
    return { from, refusals, kept };
  }
  const closed = (...sockets: readonly Socket[]) =>
    Promise.all(sockets.map((socket) => once(socket.destroy(), 'close')));

  it('that is already closed is not counted', () => {
    const { from, refusals } = bounded(1, {});
    const { socket, heard } = from(undefined);
    expect([heard, socket.destroyed, refusals]).toEqual([false, true, []]);
    expect(from('a').heard).toBe(true);
  });

  it('is refused if any of its counters is full', () => {
    const { from, refusals } = bounded(100, { b: 1 });
    expect(['ab', 'cb', 'bc', 'ac'].map((address) => from(address).heard)).toEqual([
      ...[true, false, false],
      true,
    ]);
    expect(refusals).toEqual(['share', 'share']);
  });

  it('is counted in each of its counters until it is closed, and then forgotten', async () => {
    const { from, kept } = bounded(100, { b: 2 });
    const sockets = ['ab', 'cb'].map((address) => from(address).socket);
    expect(from('db').heard).toBe(false);
    await closed(sockets[0]!);
    const next = from('db');
    expect([next.heard, from('ab').heard]).toEqual([true, false]);
    await closed(sockets[1]!, next.socket);
    expect(kept().size).toBeGreaterThan(0);
    for (const map of kept()) expect([...map]).toEqual([]);
  });

  it('is ended at the owner of most open ones', async () => {
    const { from, refusals } = bounded(5, {});
    const gone = ['a', 'a', 'a'].map((address) => from(address).socket);
    await closed(...gone.slice(0, 2));
    const open = ['b', 'b', 'b', 'a'].map((address) => from(address).socket);
    expect(from('c').heard).toBe(true);
    expect(open.map(({ destroyed }) => destroyed)).toEqual([false, false, true, false]);
    expect(refusals).toEqual(['ceded']);
  });

  it('counts for its owner after another one of that owner was closed', async () => {
    const { from, refusals } = bounded(3, {});
    const sockets = ['a', 'a', 'a'].map((address) => from(address).socket);
    await closed(sockets[0]!);
    expect(['b', 'c'].map((address) => from(address).heard)).toEqual([true, true]);
    expect(refusals).toEqual(['ceded']);
  });

  it('is not ended for an owner with one less', () => {
    const { from, refusals } = bounded(3, {});
    for (const address of ['a', 'a', 'b']) from(address);
    expect(from('b').heard).toBe(false);
    expect(refusals).toEqual(['full']);
  });
});

describe('the shares of an address', () => {
  const shares = sharesByAddress({ total: 400, perAddress: 10 });

  it('are one for IPv4, also if it is mapped to IPv6', () => {
    expect(shares('10.1.2.3')).toEqual([{ key: '10.1.2.3', most: 10 }]);
    expect(shares('::ffff:10.1.2.3')).toEqual(shares('10.1.2.3'));
  });

  it('are one for all invalid addresses', () => {
    expect(shares('nonsense')).toEqual([{ key: 'nonsense', most: 10 }]);
  });

  it('are its own and that of its /64 for IPv6, which may be half of all', () => {
    const [own, block, ...more] = shares('2001:db8:1:2::7');
    expect([own.most, block?.most, more]).toEqual([10, 200, []]);
    expect(shares('2001:db8:1:2:ffff::8')[1]).toEqual(block);
    expect(shares('2001:db8:1:3::7')[1]).not.toEqual(block);
    expect(shares('fd00::ffff:10.1.2.3')[1]).toEqual(shares('fd00::1')[1]);
    expect(sharesByAddress({ total: 10, perAddress: 8 })('2001:db8::1')[1]?.most).toBe(8);
    expect(shares('fe80::1%eth0')[0]).toEqual({ key: 'fe80::1', most: 10 });
  });
});

describe('connections of a server', () => {
  it('are limited by the share of an address, further ones are closed without reading a request, and others are served', async () => {
    const { refusals } = await listening(100, 3);
    const hostile = [];
    for (let i = 0; i < 5; i += 1) hostile.push(await call('127.0.0.2'));
    expect(hostile.map(({ heard }) => heard)).toEqual([true, true, true, false, false]);
    expect((await call('127.0.0.3')).heard).toBe(true);
    expect(refusals).toEqual(['share', 'share']);
  });

  it('are available for others once they are closed', async () => {
    const { counts } = await listening(100, 1);
    const { socket } = await call('127.0.0.2');
    expect((await call('127.0.0.2')).heard).toBe(false);
    socket.destroy();
    await vi.waitFor(() => expect(counts.at(-1)).toBe(0), 240_000);
    expect((await call('127.0.0.2')).heard).toBe(true);
  });

  it('are ended, when all are in use, at the address with the most for one with fewer', async () => {
    const { refusals, counts } = await listening(8, 4);
    const greedy: Socket[] = [];
    for (const from of ['127.0.0.2', '127.0.0.3'])
      for (let i = 0; i < 4; i += 1) greedy.push((await call(from)).socket);
    expect((await call('127.0.0.4')).heard).toBe(true);
    await vi.waitFor(() => expect(greedy.filter(({ closed }) => closed)).toHaveLength(1), 240_000);
    // The newest of the first that has the most.
    expect(greedy.findIndex(({ closed }) => closed)).toBe(3);
    expect(refusals).toEqual(['ceded']);
    expect(Math.max(...counts)).toBe(8);
    expect(counts.at(-1)).toBe(8);
  });

  it('are not ended for an address that would then have as many', async () => {
    const { refusals } = await listening(4, 4);
    for (const from of ['127.0.0.2', '127.0.0.2', '127.0.0.3', '127.0.0.3'])
      expect((await call(from)).heard).toBe(true);
    expect((await call('127.0.0.2')).heard).toBe(false);
    expect((await call('127.0.0.4')).heard).toBe(true);
    expect(refusals).toEqual(['full', 'ceded']);
  });
});
