import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { Writable } from 'node:stream';
import { Turns } from '@space/broker-kit';
import type { Dispatcher } from 'undici';
import { afterEach, expect, it } from 'vitest';
import { Problem } from '../core/problem.ts';
import { scrubberOf } from '../core/scrub.ts';
import type { PendingRequest } from './connections.ts';
import { Ending } from './ending.ts';
import type { Line } from './record.ts';
import { relay } from './relay.ts';

/** Answers that come as fast as they can, of Capsules that share the processor; what is counted is turns, not time. */

const VALUE = 'sk_live_4eC39HqLyjWDarjtT1zdp';
const KIB = 1024;
const CHUNK = Buffer.alloc(64 * KIB, 'x '.repeat(32));
const loop = () => new Promise((resolve) => setImmediate(resolve));

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

/** Each look at the clock is later by so much that a round is one piece of work. */
function oneAtATime(): Turns {
  let ms = 0;
  return new Turns({ now: () => ms++, sliceMs: 1 });
}

/** An answer in transfer, whose host sends data for as long as it is read. */
class Stream {
  readonly done: Promise<void>;
  /** Bytes that the caller got, with heads and frames, and what they were. */
  readonly got: Buffer[] = [];
  given = 0;
  paused = false;
  aborted = false;
  readonly #pending: PendingRequest;
  readonly #controller: Dispatcher.DispatchController;

  constructor(turns: Turns, capsule: string, order: string[] = [], stuck = false) {
    const socket = new Socket();
    const to = new Writable({
      highWaterMark: 256 * KIB,
      write: (bytes: Buffer, _, done) => {
        this.got.push(bytes);
        if (!stuck) done();
      },
    });
    closers.push(() => socket.destroy());
    const response = new ServerResponse(new IncomingMessage(socket));
    response.assignSocket(to as Socket);
    const ending = new Ending();
    closers.push(() => ending.end(new Problem('request_timeout')));
    const seen: PendingRequest[] = [];
    this.done = relay(
      { dispatch: (_, pending) => void seen.push(pending) },
      { method: 'GET', path: '/', headers: [], body: null },
      {
        response,
        scrubber: scrubberOf([VALUE]),
        sealTag: (tag) => tag,
        line: { bytesIn: 0, bytesOut: 0 } as Line,
        ending,
        idleMs: 60_000,
        stalled: () => () => undefined,
        answerMs: 60_000,
        inTurn: (act) =>
          void turns.run(capsule, () => {
            order.push(capsule);
            act();
          }),
      },
    );
    this.done.catch(() => undefined);
    const [pending] = seen;
    if (pending === undefined) throw new Error('nothing was asked for');
    this.#pending = pending;
    this.#controller = {
      pause: () => {
        this.paused = true;
      },
      resume: () => {
        this.paused = false;
      },
      abort: () => {
        this.aborted = true;
      },
      rawHeaders: [],
    } as unknown as Dispatcher.DispatchController;
    pending.onRequestStart?.(this.#controller, {});
    pending.onResponseStart?.(this.#controller, 200, {}, 'OK');
  }

  give(bytes: Buffer = CHUNK): void {
    this.given += bytes.length;
    this.#pending.onResponseData?.(this.#controller, bytes);
  }

  /** As much as is taken, and no more than a host could have sent meanwhile. */
  giveAll(): void {
    for (let n = 0; n < 4 && !this.paused && !this.aborted; n += 1) this.give();
  }

  end(): void {
    this.#pending.onResponseEnd?.(this.#controller, {});
  }
}

it('a Capsule with one answer waits for only one piece of another with thirty-two', async () => {
  const turns = oneAtATime();
  const order: string[] = [];
  const many = Array.from({ length: 32 }, () => new Stream(turns, 'many', order));
  for (const stream of many) stream.giveAll();
  for (let round = 0; round < 8; round += 1) await loop();
  const one = new Stream(turns, 'one', order);
  const from = order.length;
  for (let round = 0; round < 44; round += 1) {
    for (const stream of [...many, one]) stream.giveAll();
    await loop();
  }
  const since = order.slice(from).join(' ');
  expect(since).not.toMatch(/many many many/);
  expect(since.match(/one/g)?.length).toBeGreaterThanOrEqual(20);
});

it('a short answer does not wait', async () => {
  const turns = oneAtATime();
  const order: string[] = [];
  for (let i = 0; i < 32; i += 1) new Stream(turns, 'many', order).giveAll();
  const short = new Stream(turns, 'one', order);
  short.give(Buffer.from('{}'));
  short.end();
  await short.done;
  expect(order).toEqual([]);
});

it('a short answer in pieces of a byte waits after a few of them', async () => {
  const turns = oneAtATime();
  const order: string[] = [];
  const stream = new Stream(turns, 'one', order);
  const text = 'a '.repeat(512);
  for (const byte of text.slice(0, 16)) stream.give(Buffer.from(byte));
  expect([turns.waiting, stream.paused]).toEqual([0, false]);
  for (const byte of text.slice(16)) {
    stream.give(Buffer.from(byte));
    expect([turns.waiting, stream.paused]).toEqual([1, true]);
    while (stream.paused) await loop();
  }
  stream.end();
  await stream.done;
  expect(order).toHaveLength(text.length - 16);
  expect(bodyOf(stream)).toContain(text.slice(0, 16));
});

it('no more is read from a host than may wait for its turn, and all of it arrives in order', async () => {
  const turns = oneAtATime();
  const stream = new Stream(turns, 'one');
  const text = Array.from({ length: 40_000 }, (_, n) => `${n} `).join('');
  const whole = Buffer.from(text);
  let rounds = 0;
  for (let at = 0; at < whole.length; rounds += 1) {
    if (!stream.paused) {
      stream.give(whole.subarray(at, at + CHUNK.length));
      at += CHUNK.length;
    }
    expect(turns.waiting).toBeLessThanOrEqual(1);
    await loop();
  }
  stream.end();
  await stream.done;
  expect(rounds).toBeGreaterThan(whole.length / CHUNK.length);
  expect(bodyOf(stream) === text).toBe(true);
});

it('an answer whose end arrives while parts of it wait is complete, and a value in it is replaced', async () => {
  const turns = oneAtATime();
  const stream = new Stream(turns, 'one');
  const before = 'y '.repeat(10 * KIB);
  stream.give(Buffer.from(`${before}${VALUE.slice(0, 9)}`));
  stream.give(Buffer.from(`${VALUE.slice(9)} end`));
  stream.end();
  expect(turns.waiting).toBe(1);
  await stream.done;
  expect(bodyOf(stream) === `${before}${'*'.repeat(VALUE.length)} end`).toBe(true);
});

it('an answer that its caller does not read gets no turn until it does', async () => {
  const turns = oneAtATime();
  const order: string[] = [];
  const stuck = new Stream(turns, 'stuck', order, true);
  const rounds = async () => {
    for (let round = 0; round < 100; round += 1) {
      stuck.giveAll();
      await loop();
    }
  };
  await rounds();
  const had = order.length;
  await rounds();
  expect(order).toHaveLength(had);
  expect(stuck.paused).toBe(true);
  expect(stuck.given).toBeLessThan(1024 * KIB);
});

/** What follows its head. */
function bodyOf({ got }: Stream): string {
  const text = Buffer.concat(got).toString('latin1');
  return text.slice(text.indexOf('\r\n\r\n') + 4);
}
