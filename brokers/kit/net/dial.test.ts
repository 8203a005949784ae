import dns from 'node:dns';
import { once } from 'node:events';
import { createServer, type Server, Socket } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { portOf } from '../metrics.ts';
import { type DialFailure, dialler } from './dial.ts';
import { addressGuard } from './guard.ts';
import { type Answer, cached, MOST_ADDRESSES, type Resolve, withFixed } from './resolve.ts';

let server: Server;
let port: number;
let connections = 0;

beforeAll(async () => {
  server = createServer((socket) => {
    connections += 1;
    socket.on('error', () => undefined).end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  port = portOf(server);
});
afterAll(() => server.close());

const guard = addressGuard({ allowed: ['127.0.0.2/32'] });
const answers = (...addresses: string[]): Resolve => {
  const list = addresses.map((address) => ({ address, ttl: 60 }));
  return async () => list;
};
const attempt = (resolve: Resolve, host = 'api.bank.org'): Promise<DialFailure | 'connected'> =>
  dialler({ resolve, guard, connectMs: 1_000 })
    .dial(host, port)
    .then(
      (socket) => {
        socket.destroy();
        return 'connected' as const;
      },
      (error) => error.failure,
    );

describe('dialling', () => {
  it.each([
    ['an address that is refused', ['127.0.0.1'], 'denied'],
    ['a permitted address and one that is refused', ['127.0.0.2', '127.0.0.1'], 'denied'],
    ['a refused address in IPv6', ['127.0.0.2', '::ffff:7f00:1'], 'denied'],
    ['no address', [], 'unresolved'],
  ])('opens nothing for a name with %s', async (_, addresses, failure) => {
    const before = connections;
    expect(await attempt(answers(...addresses))).toBe(failure);
    expect(connections).toBe(before);
  });

  it('is in time if its connection is, although the process cannot run until later', async () => {
    const there = createServer((socket) => socket.end());
    await new Promise<void>((resolve) => there.listen(0, '127.0.0.2', resolve));
    const dialling = dialler({ resolve: answers('127.0.0.2'), guard, connectMs: 100 });
    const connected = dialling.dial('api.bank.org', portOf(there));
    // Until it is connecting, which the system does by itself.
    for (let turn = 0; turn < 5; turn += 1) await new Promise(process.nextTick);
    const until = performance.now() + 300;
    while (performance.now() < until);
    (await connected).destroy();
    there.close();
  });

  it.each(['127.0.0.1', '8.8.8.8', '::1', '::ffff:127.0.0.1'])('refuses %s as a name', async (host) => {
    expect(await attempt(answers('127.0.0.2'), host)).toBe('denied');
  });

  it('judges so many addresses of a name, and dials none that has more', async () => {
    let judged = 0;
    const counting = {
      permits: () => {
        judged += 1;
        return true;
      },
    };
    const dial = (count: number) =>
      dialler({ resolve: answers(...Array<string>(count).fill('127.0.0.1')), guard: counting })
        .dial('api.bank.org', port)
        .then((socket) => socket.destroy());
    await dial(MOST_ADDRESSES);
    expect(judged).toBe(MOST_ADDRESSES);
    await expect(dial(MOST_ADDRESSES + 1)).rejects.toMatchObject({ failure: 'unresolved' });
    expect(judged).toBe(MOST_ADDRESSES);
  });

  it('reports unresolved if no resolver answered', async () => {
    expect(await attempt(() => Promise.reject(new Error('SERVFAIL')))).toBe('unresolved');
  });

  it('never connects to an answer that is not an address, trusted or not, since it would be resolved again', async () => {
    const before = connections;
    for (const found of [
      [{ address: 'localhost', ttl: 60, trusted: true as const }],
      [{ address: 'localhost', ttl: 60 }],
    ])
      expect(await attempt(async () => found)).not.toBe('connected');
    expect(connections).toBe(before);
  });

  it('connects to the address that was checked, whatever the name resolves to later', async () => {
    let asked = 0;
    const rebinding: Resolve = async () => {
      asked += 1;
      return [{ address: asked === 1 ? '127.0.0.2' : '127.0.0.1', ttl: 0 }];
    };
    const system = vi.spyOn(dns, 'lookup');
    onTestFinished(() => system.mockRestore());
    // Nothing listens on 127.0.0.2: had the name been resolved again, it would have connected.
    expect(await attempt(rebinding)).toBe('unreachable');
    expect(asked).toBe(1);
    expect(await attempt(rebinding)).toBe('denied');
    // Nor is the name given to the system, which would resolve it by itself.
    expect(system).not.toHaveBeenCalled();
  });

  it('tries the next address when one does not answer', async () => {
    const open = addressGuard({ allowed: ['127.0.0.0/8'] });
    const dial = dialler({ resolve: answers('127.0.0.2', '127.0.0.1'), guard: open, connectMs: 1_000 });
    const socket = await dial.dial('api.bank.org', port);
    expect(socket.remoteAddress).toBe('127.0.0.1');
    socket.destroy();
  });

  it('tries no more than four addresses, however many the name has', async () => {
    const open = addressGuard({ allowed: ['127.0.0.0/8'] });
    const many = answers('127.0.0.2', '127.0.0.3', '127.0.0.4', '127.0.0.5', '127.0.0.1');
    const dial = dialler({ resolve: many, guard: open, connectMs: 1_000 });
    const before = connections;
    await expect(dial.dial('api.bank.org', port)).rejects.toMatchObject({ failure: 'unreachable' });
    expect(connections).toBe(before);
  });

  it('returns no connection to an address other than the checked one', async () => {
    // The kernel leads this address to loopback.
    const elsewhere: Resolve = async () => [{ address: '0.0.0.0', ttl: 60, trusted: true }];
    expect(await attempt(elsewhere)).toBe('denied');
  });

  it('reaches an address of the one family that works, behind many of the other', async () => {
    const listening = createServer((socket) => socket.destroy());
    await new Promise<void>((resolve) => listening.listen(0, '::1', resolve));
    const open = addressGuard({ allowed: ['127.0.0.0/8', '::1/128'] });
    // Nothing listens on that port of these: an IPv6-only cluster cannot reach them either.
    const resolve = answers('127.0.0.2', '127.0.0.3', '127.0.0.4', '127.0.0.5', '::1');
    const socket = await dialler({ resolve, guard: open, connectMs: 1_000 }).dial(
      'api.bank.org',
      portOf(listening),
    );
    expect(socket.remoteAddress).toBe('::1');
    socket.destroy();
    listening.close();
    // And the other way round, where the IPv6 ones are dead.
    const dead = answers('::1', '::1', '::1', '::1', '127.0.0.1');
    const other = await dialler({ resolve: dead, guard: open, connectMs: 1_000 }).dial('api.bank.org', port);
    expect(other.remoteAddress).toBe('127.0.0.1');
    other.destroy();
    // All of them are judged, tried or not.
    const inside = answers('::1', '127.0.0.1', '::1', '127.0.0.1', '::1', '10.0.0.1');
    expect(
      await dialler({ resolve: inside, guard: open })
        .dial('api.bank.org', port)
        .catch(({ failure }) => failure),
    ).toBe('denied');
  });

  it('does not end a connection whose signal is aborted after it was returned', async () => {
    const open = addressGuard({ allowed: ['127.0.0.0/8'] });
    const quiet = createServer((socket) => socket.pipe(socket));
    await new Promise<void>((resolve) => quiet.listen(0, '127.0.0.1', resolve));
    const dial = dialler({ resolve: answers('127.0.0.1'), guard: open, connectMs: 1_000 });
    const ending = new AbortController();
    const socket = await dial.dial('api.bank.org', portOf(quiet), ending.signal);
    ending.abort();
    socket.write('still here');
    const [bytes] = await once(socket, 'data');
    expect(String(bytes)).toBe('still here');
    socket.destroy();
    quiet.close();
    await expect(dial.dial('api.bank.org', portOf(server), ending.signal)).rejects.toThrow();
  });

  it('connects to an address and port that an administrator has fixed, without DNS', async () => {
    const fixed = new Map<string, Answer>([
      ['api.bank.org', { address: '127.0.0.1', port, ttl: 60, trusted: true }],
    ]);
    const dial = dialler({ resolve: withFixed(fixed, answers()), guard, connectMs: 1_000 });
    (await dial.dial('api.bank.org', 443)).destroy();
    await expect(dial.dial('other.bank.org', 443)).rejects.toMatchObject({ failure: 'unresolved' });
  });
});

describe('an opened connection', () => {
  afterEach(() => {
    vi.restoreAllMocks();
    vi.useRealTimers();
  });
  const open = addressGuard({ allowed: ['127.0.0.0/8'] });
  /** Called once the connection was begun, before it can have an outcome. */
  const begun =
    (act: () => void, ...addresses: string[]): Resolve =>
    async () => {
      process.nextTick(act);
      return answers(...addresses)('');
    };
  /** Has each connection say that it is at this address, from when it is opened. */
  const peerIs = (value: string | undefined) =>
    vi.spyOn(Socket.prototype, 'setNoDelay').mockImplementation(function (this: Socket) {
      return Object.defineProperty(this, 'remoteAddress', { value });
    });
  const dial = (resolve: Resolve, signal?: AbortSignal) =>
    dialler({ resolve, guard: open, connectMs: 1_000 }).dial('api.bank.org', port, signal);

  it('has the checked address, in either notation, and no other', async () => {
    for (const [checked, at, opened] of [
      ['127.0.0.1', '127.0.0.1', true],
      ['127.0.0.1', '::ffff:127.0.0.1', true],
      ['127.0.0.1', '::ffff:127.0.0.2', false],
      ['127.0.0.1', '::1.0.0.127', false],
      ['127.0.0.1', '2001:db8::127.0.0.1', false],
      ['127.0.0.1', undefined, false],
    ] as const) {
      peerIs(at);
      const outcome = dial(answers(checked));
      if (opened) (await outcome).destroy();
      else await expect(outcome).rejects.toMatchObject({ failure: 'denied' });
    }
  });

  it('is ended if it is at another address', async () => {
    const quiet = createServer();
    await new Promise<void>((resolve) => quiet.listen(0, '127.0.0.1', resolve));
    const accepted = once(quiet, 'connection');
    peerIs('10.0.0.1');
    const dialling = dialler({ resolve: answers('127.0.0.1'), guard: open });
    await expect(dialling.dial('api.bank.org', portOf(quiet))).rejects.toMatchObject({ failure: 'denied' });
    const [socket] = (await accepted) as [Socket];
    await once(socket.resume(), 'close');
    quiet.close();
  });

  it('has no deadline any more, sends at once, and does not crash the process by an unhandled error', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const noDelay = vi.spyOn(Socket.prototype, 'setNoDelay');
    const socket = await dial(answers('127.0.0.1'));
    vi.advanceTimersByTime(60_000);
    expect(socket.destroyed).toBe(false);
    expect(noDelay).toHaveBeenCalledWith(true);
    expect(() => socket.emit('error', new Error('reset'))).not.toThrow();
    socket.destroy();
  });

  it('is abandoned when its time has passed, and leaves no timer if it fails before', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const late = begun(() => vi.advanceTimersByTime(1_000), '127.0.0.1');
    await expect(dial(late)).rejects.toMatchObject({ failure: 'timeout' });
    await expect(dial(answers('127.0.0.2'))).rejects.toMatchObject({ failure: 'unreachable' });
    expect(vi.getTimerCount()).toBe(0);
  });

  it('is abandoned when its caller gives up, and no further address is tried', async () => {
    const ending = new AbortController();
    const resolve = begun(() => ending.abort(new Error('over')), '127.0.0.1', '127.0.0.1');
    const outcome = dial(resolve, ending.signal);
    await expect(outcome).rejects.toMatchObject({ failure: 'unreachable', cause: { message: 'over' } });
  });
});

describe('the cache of answers', () => {
  it('keeps an answer for its TTL, at most a minute, and queries once for many callers', async () => {
    let now = 0;
    let asked = 0;
    const resolve = cached(
      async () => {
        asked += 1;
        return [{ address: '1.1.1.1', ttl: 3_600 }];
      },
      () => now,
    );
    await Promise.all([resolve('a.b'), resolve('a.b'), resolve('a.b')]);
    expect(asked).toBe(1);
    now = 59_999;
    await resolve('a.b');
    expect(asked).toBe(1);
    now = 60_000;
    await resolve('a.b');
    expect(asked).toBe(2);
  });

  const many = (count: number): Answer[] =>
    Array.from({ length: count }, (_, at) => ({ address: `1.1.${at >> 8}.${at & 255}`, ttl: 0 }));

  it('has nothing of a name with too many addresses, which is asked for again after ten seconds', async () => {
    let now = 0;
    let asked = 0;
    const resolve = cached(
      async () => {
        asked += 1;
        return many(4_000);
      },
      () => now,
    );
    expect([await resolve('a.b'), await resolve('a.b'), asked]).toEqual([[], [], 1]);
    now = 10_000;
    expect([await resolve('a.b'), asked]).toEqual([[], 2]);
  });

  it('keeps so many addresses, whatever names they are of', async () => {
    let asked = 0;
    const resolve = cached(async () => {
      asked += 1;
      return many(MOST_ADDRESSES - 1).map((answer) => ({ ...answer, ttl: 60 }));
    });
    const most = 16_384 / MOST_ADDRESSES;
    for (let round = 0; round < 2; round += 1) for (let at = 0; at < most; at += 1) await resolve(`n${at}.b`);
    expect(asked).toBe(most);
    await resolve('one-more.b');
    await resolve('n0.b');
    expect(asked).toBe(most + 2);
  });
});
