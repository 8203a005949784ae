import { connect, type TLSSocket } from 'node:tls';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { Dispatcher } from 'undici';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { makePki, type TestPki } from '../../../testing/certificates.ts';
import { eventually } from '../../../testing/eventually.ts';
import { startUpstream, type TestUpstream } from '../testing/upstream.ts';
import { type ConnectionOptions, Connections, type PendingRequest } from './connections.ts';

const HOST = 'api.bank.org';
/** Longer than any test. */
const NEVER = 10 * 60_000;

let pki: TestPki;
let certificate: { readonly cert: string; readonly key: string };
let upstream: TestUpstream;
let connections: Connections;
/** Connections that are being opened now, and the most that ever were. */
let opening: { now: number; most: number };

beforeAll(async () => {
  pki = await makePki();
  certificate = await pki.issue(HOST);
});
afterAll(() => pki.remove());
beforeEach(async () => {
  upstream = await startUpstream(certificate);
  opening = { now: 0, most: 0 };
});
afterEach(async () => {
  await connections.destroy();
  await upstream.close();
});

const secure = () =>
  new Promise<TLSSocket>((resolve, reject) => {
    const { port } = upstream;
    const socket = connect({ port, host: '127.0.0.1', servername: HOST, ca: pki.authority });
    socket.on('error', reject).on('secureConnect', () => resolve(socket));
  });

function begin(options: Partial<ConnectionOptions> = {}): void {
  const { open = secure, ...others } = options;
  connections = new Connections({
    origin: `https://${HOST}`,
    open: async () => {
      opening.now += 1;
      opening.most = Math.max(opening.most, opening.now);
      return open().finally(() => {
        opening.now -= 1;
      });
    },
    most: 32,
    client: {},
    keepMs: NEVER,
    openDelayMs: NEVER,
    unused: () => () => undefined,
    ...others,
  });
}

/** The status that a request is answered with, or why it is not; and the request itself, as long as somebody keeps it. */
function ask(path = '/'): {
  readonly answer: Promise<number | string>;
  readonly kept: WeakRef<object>;
  giveUp(): void;
} {
  const { promise, resolve } = Promise.withResolvers<number | string>();
  let over = false;
  const end = (what: number | string) => {
    over = true;
    resolve(what);
  };
  let status = 0;
  const pending: PendingRequest = {
    get isSettled() {
      return over;
    },
    reused: false,
    received: 0,
    onRequestStart: () => undefined,
    onResponseStart: (_, code) => {
      status = code;
    },
    onResponseData: () => undefined,
    onResponseEnd: () => end(status),
    onResponseError: (_, error) => end(error.message),
  };
  const request: Dispatcher.DispatchOptions = { method: 'GET', path };
  connections.dispatch(request, pending);
  return { answer: promise, kept: new WeakRef(request), giveUp: () => end('given up') };
}
const many = (count: number) => Promise.all(Array.from({ length: count }, () => ask().answer));
const all = <T>(count: number, value: T) => Array.from({ length: count }, () => value);

/** Answers are held back until they are released; from then on they are sent at once. */
function hold(): { readonly waiting: () => number; letGo(): void } {
  const responses: (() => void)[] = [];
  upstream.answer = (_, response) => void responses.push(() => response.end('ok'));
  return {
    waiting: () => responses.length,
    letGo: () => {
      upstream.answer = (_, response) => response.end('ok');
      for (const respond of responses.splice(0)) respond();
    },
  };
}
/** An answer arrives a moment before its connection is free. */
const quiet = () => eventually(() => !connections.inUse, { what: 'all connections are free' });

describe('connections to a host', () => {
  it('that are open serve queued requests, and no others are opened', async () => {
    begin();
    await many(1);
    expect(await many(50)).toEqual(all(50, 200));
    expect(upstream.connections()).toBe(1);
  });

  it('increase for requests that have waited too long', async () => {
    begin({ openDelayMs: 1 });
    const slow = hold();
    const answers = many(20);
    await eventually(() => slow.waiting() === 20, { what: '20 requests wait' });
    expect(upstream.connections()).toBe(20);
    slow.letGo();
    expect(await answers).toEqual(all(20, 200));
    await quiet();
    upstream.answer = (_, response) => response.end('ok');
    expect(await many(20)).toEqual(all(20, 200));
    expect(upstream.connections()).toBe(20);
  });

  it('are opened a few at a time, and never more than allowed', async () => {
    begin({ openDelayMs: 1, most: 12 });
    const slow = hold();
    const answers = many(20);
    await eventually(() => slow.waiting() === 12, { what: '12 requests wait' });
    expect([opening.most, upstream.connections()]).toEqual([8, 12]);
    slow.letGo();
    expect(await answers).toEqual(all(20, 200));
    expect(upstream.connections()).toBe(12);
  });

  it('that cannot be opened fail all waiting requests, and no later ones', async () => {
    let reachable = false;
    begin({ open: () => (reachable ? secure() : Promise.reject(new Error('unreachable'))) });
    expect(await many(30)).toEqual(all(30, 'unreachable'));
    reachable = true;
    expect(await many(3)).toEqual(all(3, 200));
    await quiet();
  });

  it('that cannot be opened do not fail requests that can be served', async () => {
    let reachable = true;
    begin({
      openDelayMs: 1,
      open: () => (reachable ? secure() : Promise.reject(new Error('unreachable'))),
    });
    const slow = hold();
    const first = ask().answer;
    await eventually(() => slow.waiting() === 1, { what: 'one request waits' });
    reachable = false;
    expect(await ask().answer).toBe('unreachable');
    slow.letGo();
    expect(await first).toBe(200);
    await quiet();
    expect(await ask().answer).toBe(200);
    expect(upstream.connections()).toBe(1);
  });

  it('that never open do not block the use of a free one', async () => {
    let stuck = false;
    begin({ openDelayMs: 1, open: () => (stuck ? new Promise(() => undefined) : secure()) });
    const slow = hold();
    const first = ask().answer;
    await eventually(() => slow.waiting() === 1, { what: 'one request waits' });
    stuck = true;
    const second = ask().answer;
    await eventually(() => opening.now === 1, { what: 'one is being opened' });
    slow.letGo();
    expect([await first, await second]).toEqual([200, 200]);
  });

  it('are kept for the next request if theirs was served by another', async () => {
    const gates: (() => void)[] = [];
    begin({
      openDelayMs: 1,
      open: async () => {
        const socket = await secure();
        await new Promise<void>((resolve) => gates.push(resolve));
        return socket;
      },
    });
    const slow = hold();
    const first = ask().answer;
    await eventually(() => gates.length === 1, { what: '1 at the gate' });
    gates[0]?.();
    const second = ask().answer;
    await eventually(() => gates.length === 2, { what: '2 at the gate' });
    slow.letGo();
    expect([await first, await second]).toEqual([200, 200]);
    gates[1]?.();
    await quiet();
    expect(await many(2)).toEqual([200, 200]);
    expect(upstream.connections()).toBe(2);
  });

  it('are not opened for a caller that has given up', async () => {
    begin({ openDelayMs: 1 });
    const slow = hold();
    const first = ask().answer;
    await eventually(() => slow.waiting() === 1, { what: 'one request waits' });
    const second = ask();
    second.giveUp();
    slow.letGo();
    expect(await first).toBe(200);
    await quiet();
    expect(await ask().answer).toBe(200);
    expect(upstream.connections()).toBe(1);
  });

  it('that never open keep no request that was given up, although another one waits before it', async () => {
    begin({ open: () => new Promise(() => undefined) });
    ask();
    const kept = Array.from({ length: 100 }, () => {
      const { kept, giveUp } = ask();
      giveUp();
      return kept;
    });
    setFlagsFromString('--expose-gc');
    const collect = runInNewContext('gc') as () => void;
    await eventually(
      () => {
        collect();
        return kept.filter((one) => one.deref() !== undefined).length <= 1;
      },
      { what: 'at most the last of them to be kept', within: 30_000 },
    );
  });

  it('recover after one on which nothing can be sent', async () => {
    begin();
    expect(await ask('/ ').answer).toContain('path');
    expect(await ask().answer).toBe(200);
    await quiet();
  });
});
