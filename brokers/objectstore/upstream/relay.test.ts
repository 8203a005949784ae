import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import { PassThrough, Readable, Writable } from 'node:stream';
import { portOf, Turns } from '@space/broker-kit';
import { Pool } from 'undici';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { eventually } from '../../../testing/eventually.ts';
import { PATIENCE, relay, type SinkFor } from './relay.ts';

const MIB = 1024 * 1024;

let server: Server;
let pool: Pool;
let answer: (response: ServerResponse) => void;

beforeEach(async () => {
  answer = (response) => void response.end('hello');
  server = createServer((_, response) => answer(response)).listen(0, '127.0.0.1');
  await once(server, 'listening');
  pool = new Pool(`http://127.0.0.1:${portOf(server)}`, { connections: 1 });
});

afterEach(async () => {
  vi.useRealTimers();
  await pool.destroy();
  server.closeAllConnections();
  server.close();
});

type Patience = NonNullable<Parameters<typeof relay>[1]['patience']>;
/** A connection may take a machine that stands still longer than a request usually waits for one. */
const PATIENT: Patience = { ...PATIENCE, queueMs: 60_000 };
const get = (sinkFor: SinkFor, signal?: AbortSignal, patience?: Partial<Patience>) =>
  relay(
    pool,
    {
      request: { method: 'GET', path: '/' },
      signal,
      patience: { ...PATIENT, ...patience },
    },
    sinkFor,
  );

/** Counts what is written to it; takes nothing more while it is held. */
function sink(): { readonly to: Writable; bytes: number; release: () => void } {
  const counting: { bytes: number; release: () => void } = { bytes: 0, release: () => undefined };
  let held: Promise<void> | undefined = new Promise((resolve) => {
    counting.release = () => {
      held = undefined;
      resolve();
    };
  });
  const to = new Writable({
    highWaterMark: 64 * 1024,
    write: (chunk: Buffer, _, done) => {
      counting.bytes += chunk.length;
      if (held === undefined) done();
      else void held.then(() => done());
    },
  });
  return Object.assign(counting, { to });
}

test('a body waits for its reader, and arrives completely', async () => {
  let handedOver = 0;
  answer = (response) => {
    const piece = Buffer.alloc(MIB);
    const more = () => {
      while (handedOver < 64) {
        handedOver += 1;
        if (!response.write(piece)) return void response.once('drain', more);
      }
      response.end();
    };
    more();
  };
  const slow = sink();
  const done = get(() => slow.to);
  await eventually(() => slow.bytes > 0, { what: 'the first bytes' });
  await eventually(
    async () => {
      const before = handedOver;
      await new Promise((resolve) => setTimeout(resolve, 100));
      return handedOver === before;
    },
    { what: 'the server to wait' },
  );
  expect(handedOver).toBeLessThan(64);
  expect(slow.bytes).toBeLessThan(MIB);
  slow.release();
  await done;
  expect(slow.bytes).toBe(64 * MIB);
});

test('an answer has so many informational ones before it, and with more its connection ends', async () => {
  const before = (count: number) => (response: ServerResponse) => {
    for (let at = 0; at < count; at += 1) response.writeProcessing();
    response.end('hello');
  };
  const taken = async () => {
    const { to, release } = sink();
    release();
    await get(() => to);
  };
  answer = before(32);
  await taken();
  answer = before(33);
  await expect(taken()).rejects.toMatchObject({ code: 'UND_ERR_HEADERS_OVERFLOW' });
  answer = before(0);
  await taken();
});

test('an answer in thousands of chunks of some bytes is ended', async () => {
  const chunks = (count: number, bytes: number) => (response: ServerResponse) => {
    const chunk = `${bytes.toString(16)}\r\n${'x'.repeat(bytes)}\r\n`;
    const head = 'HTTP/1.1 200 OK\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n';
    response.socket?.end(`${head}${chunk.repeat(count)}0\r\n\r\n`);
  };
  const taken = async () => {
    const { to, release } = sink();
    release();
    await get(() => to);
  };
  for (const [count, bytes] of [
    [1_024, 1],
    [5_000, 64],
  ] as const) {
    answer = chunks(count, bytes);
    await taken();
  }
  answer = chunks(5_000, 1);
  await expect(taken()).rejects.toMatchObject({ code: 'PiecesTooSmall' });
  answer = (response) => void response.end('hello');
  await taken();
});

test('a read piece is freed at once, without the collector', async () => {
  answer = (response) => {
    response.writeHead(200, { 'content-length': 16 * MIB });
    // The head alone, so that the pieces behind it have memory of their own.
    response.flushHeaders();
    for (let i = 0; i < 16; i += 1) response.write(Buffer.alloc(MIB, i));
    response.end();
  };
  const pieces: Buffer[] = [];
  let bytes = 0;
  let right = true;
  await get(
    () =>
      new Writable({
        write: (piece: Buffer, _, done) => {
          right &&= piece.every((value, i) => value === Math.floor((bytes + i) / MIB));
          bytes += piece.length;
          pieces.push(piece);
          setImmediate(done);
        },
      }),
  );
  expect({ bytes, right }).toEqual({ bytes: 16 * MIB, right: true });
  const kept = pieces.reduce((sum, { length }) => sum + length, 0);
  // Small pieces and the ends of larger ones are left to the collector.
  expect(kept).toBeLessThan(4 * MIB);
});

test('a caller that gives up while all connections are in use is released at once, and nothing is sent for it', async () => {
  let requests = 0;
  const kept: ServerResponse[] = [];
  answer = (response) => {
    requests += 1;
    kept.push(response);
  };
  const open = sink();
  open.release();
  const first = get(() => open.to);
  await eventually(() => requests === 1, { what: 'the first request' });
  const abort = new AbortController();
  const second = get(() => open.to, abort.signal);
  abort.abort(new Error('enough'));
  await expect(second).rejects.toThrow('enough');
  kept[0]?.end('x');
  await first;
  const third = sink();
  third.release();
  const last = get(() => third.to);
  await eventually(() => requests > 1, { what: 'the next request' });
  kept[1]?.end('y');
  await last;
  expect(requests).toBe(2);
});

test('a body that is no longer read is not fetched further', async () => {
  let closed = false;
  answer = (response) => {
    response.on('close', () => {
      closed = true;
    });
    response.write(Buffer.alloc(8 * MIB));
  };
  const gone = sink();
  const done = get(() => gone.to);
  await eventually(() => gone.bytes > 0, { what: 'the first bytes' });
  gone.to.destroy();
  await expect(done).rejects.toThrow('closed before the end');
  await eventually(() => closed, { what: 'the connection to end' });
});

test('a body that ends too early aborts its request', async () => {
  answer = (response) => {
    response.writeHead(200, { 'content-length': 100 });
    response.write('short', () => response.destroy());
  };
  const cut = sink();
  cut.release();
  await expect(get(() => cut.to)).rejects.toThrow();
  expect(cut.to.destroyed).toBe(true);
  expect(cut.to.writableFinished).toBe(false);
});

test('a caller that refuses an answer ends it', async () => {
  const refuse = () => {
    throw new Error('not for me');
  };
  await expect(get(refuse)).rejects.toThrow('not for me');
  await expect(get(() => sink().to, AbortSignal.abort(new Error('too late')))).rejects.toThrow('too late');
});

const NEVER = 60_000;
const SOON = 200;
/** For limits that are only reached by `standStill`, and not by a machine that does. */
const LONG = 60_000;
/** From here on, time passes for the relay only as a test lets it. */
const stopTime = () => vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
/** Longer than any limit, in whose middle it looks again. */
const standStill = () => vi.advanceTimersByTime(2.5 * LONG);

test('an upstream that does not begin its answer is abandoned', async () => {
  answer = () => undefined;
  const late = get(() => sink().to, undefined, { headMs: SOON, pieceMs: NEVER });
  await expect(late).rejects.toMatchObject({ code: 'UND_ERR_HEADERS_TIMEOUT' });
});

test('an upstream that stalls within its answer is abandoned', async () => {
  answer = (response) => void response.writeHead(200, { 'content-length': 10 }).write('half');
  const late = get(() => sink().to, undefined, { headMs: NEVER, pieceMs: SOON });
  await expect(late).rejects.toMatchObject({ code: 'UND_ERR_BODY_TIMEOUT' });
});

test('an upstream is not abandoned because its caller does not read', async () => {
  answer = (response) => void response.end(Buffer.alloc(8 * MIB));
  const slow = sink();
  stopTime();
  const done = get(() => slow.to, undefined, { headMs: NEVER, pieceMs: LONG });
  await eventually(() => slow.to.writableNeedDrain, { what: 'the caller to be behind' });
  standStill();
  slow.release();
  await done;
  expect(slow.bytes).toBe(8 * MIB);
});

test('a caller that waits for a connection is released at once on abort or deadline, and its request is never sent', async () => {
  const asked: string[] = [];
  let first: ServerResponse | undefined;
  server.on('request', ({ url }: { url?: string }) => void asked.push(url ?? ''));
  answer = (response) => {
    first ??= response;
    if (first !== response) response.end('hello');
  };
  const takes = sink();
  takes.release();
  const holder = get(() => takes.to);
  await eventually(() => first !== undefined, { what: 'the only connection to be taken' });
  const queued = (path: string, signal?: AbortSignal, patience: Partial<Patience> = {}) =>
    relay(
      pool,
      { request: { method: 'GET', path }, signal, patience: { ...PATIENT, ...patience } },
      () => sink().to,
    );
  const gone = new AbortController();
  const aborted = queued('/aborted', gone.signal);
  const late = queued('/late', undefined, { queueMs: SOON });
  gone.abort(new Error('gone'));
  await expect(aborted).rejects.toThrow('gone');
  await expect(late).rejects.toMatchObject({ code: 'unavailable', retryAfter: 1 });
  const patient = sink();
  patient.release();
  const last = relay(
    pool,
    { request: { method: 'GET', path: '/last' }, signal: undefined, patience: PATIENT },
    () => patient.to,
  );
  first?.end('hello');
  await holder;
  await last;
  expect(asked).toEqual(['/', '/last']);
});

test('a body that its caller sends slowly is waited for, and one that the upstream does not read is abandoned', async () => {
  const { promise: taken, resolve } = Promise.withResolvers<void>();
  answer = (response) => {
    response.req.resume();
    response.req.once('end', () => response.end('hello'));
    resolve();
  };
  const slow = new PassThrough();
  const into = sink();
  into.release();
  const put = (body: Readable, bytes: number, headMs: number) =>
    relay(
      pool,
      {
        request: { method: 'PUT', path: '/', body, headers: { 'content-length': String(bytes) } },
        signal: undefined,
        patience: { ...PATIENT, headMs },
      },
      () => into.to,
    );
  stopTime();
  const done = put(slow, 2, LONG);
  slow.write('a');
  await taken;
  standStill();
  slow.end('b');
  await done;
  vi.useRealTimers();

  answer = () => undefined;
  const flood = Readable.from(Array.from({ length: 64 }, () => Buffer.alloc(MIB)));
  await expect(put(flood, 64 * MIB, SOON)).rejects.toMatchObject({ code: 'UND_ERR_HEADERS_TIMEOUT' });
  expect(flood.destroyed).toBe(true);
});

describe('in turns', () => {
  /** Turns that are given by hand. */
  function byHand() {
    const line: (() => void)[] = [];
    const inTurn = <T>(act: () => T) => new Promise<T>((resolve) => void line.push(() => resolve(act())));
    return { line, inTurn };
  }
  const getInTurn = (
    sinkFor: SinkFor,
    inTurn: ReturnType<typeof byHand>['inTurn'],
    signal?: AbortSignal,
    isShared = () => true,
  ) => relay(pool, { request: { method: 'GET', path: '/' }, signal, passing: { isShared, inTurn } }, sinkFor);

  test('a long answer waits for a turn for each piece, and is complete in the end', async () => {
    const whole = randomBytes(4 * MIB);
    answer = (response) => void response.end(whole);
    const got: Buffer[] = [];
    const to = new Writable({
      // As the socket of a caller that takes all at once.
      write: (chunk: Buffer, _, done) => {
        got.push(Buffer.from(chunk));
        done();
      },
    });
    const { line, inTurn } = byHand();
    const done = getInTurn(() => to, inTurn);
    let ended = false;
    void done.then(() => {
      ended = true;
    });
    let turns = 0;
    while (!ended) {
      await eventually(async () => ended || line.length > 0, { what: 'a piece or the end' });
      // However fast the server is, one piece waits, and nothing was written but what had its turn.
      expect(line.length).toBeLessThanOrEqual(1);
      const before = got.length;
      await new Promise((resolve) => setImmediate(resolve));
      expect(got.length).toBe(before);
      const next = line.shift();
      next?.();
      if (next !== undefined) turns += 1;
    }
    expect(Buffer.concat(got).equals(whole)).toBe(true);
    expect(turns).toBeGreaterThan(4 * 8);
  });

  test('an answer whose server pauses takes no turn meanwhile, and is complete in the end', async () => {
    const [first, rest] = [randomBytes(256 * 1024), randomBytes(256 * 1024)];
    let goOn: () => void = () => undefined;
    answer = (response) => {
      response.writeHead(200, { 'content-length': first.length + rest.length }).write(first);
      goOn = () => void response.end(rest);
    };
    const got: Buffer[] = [];
    const to = new Writable({
      write: (chunk: Buffer, _, done) => {
        got.push(Buffer.from(chunk));
        done();
      },
    });
    const all = new Turns();
    let turns = 0;
    const done = getInTurn(
      () => to,
      (act) => {
        turns += 1;
        return all.run('one', act);
      },
    );
    done.catch(() => undefined);
    const bytes = () => got.reduce((sum, { length }) => sum + length, 0);
    await eventually(() => bytes() === first.length, { what: 'what the server has sent' });
    const before = turns;
    for (let round = 0; round < 20_000; round += 1) await new Promise((resolve) => setImmediate(resolve));
    expect(turns - before).toBeLessThanOrEqual(1);
    goOn();
    await done;
    expect(Buffer.concat(got).equals(Buffer.concat([first, rest]))).toBe(true);
  });

  test('a short answer waits for none', async () => {
    answer = (response) => void response.end(Buffer.alloc(32 * 1024));
    const held = sink();
    held.release();
    const { line, inTurn } = byHand();
    await getInTurn(() => held.to, inTurn);
    expect([held.bytes, line.length]).toEqual([32 * 1024, 0]);
  });

  test('a long answer waits for none until others are waiting', async () => {
    const whole = Buffer.alloc(8 * MIB);
    answer = (response) => void response.end(whole);
    const held = sink();
    held.release();
    const { line, inTurn } = byHand();
    let looks = 0;
    const done = getInTurn(
      () => held.to,
      inTurn,
      undefined,
      () => {
        looks += 1;
        return looks > 8;
      },
    );
    await eventually(async () => line.length > 0, { what: 'a piece that waits' });
    expect(held.bytes).toBeGreaterThan(MIB / 8);
    expect(held.bytes).toBeLessThan(whole.length);
    let ended = false;
    void done.then(() => {
      ended = true;
    });
    while (!ended) {
      line.shift()?.();
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(held.bytes).toBe(whole.length);
  });

  test('an answer that is aborted while it waits writes nothing more', async () => {
    answer = (response) => void response.end(Buffer.alloc(4 * MIB));
    const held = sink();
    held.release();
    const { line, inTurn } = byHand();
    const gone = new AbortController();
    const done = getInTurn(() => held.to, inTurn, gone.signal);
    await eventually(async () => line.length > 0, { what: 'a piece that waits' });
    const before = held.bytes;
    gone.abort(new Error('gone'));
    await expect(done).rejects.toThrow('gone');
    line.shift()?.();
    expect(held.bytes).toBe(before);
  });
});
