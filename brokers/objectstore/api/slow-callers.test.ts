import type { IncomingMessage, ServerResponse } from 'node:http';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { createPace, type Pace, type PaceOptions, type Slow } from './slow-callers.ts';

/** Bodies on sockets that only count, and a clock that is moved by hand. */

const OPTIONS: PaceOptions = {
  tickMs: 100,
  recheckMs: 1_000_000,
  windowMs: 10_000,
  leastBytes: 100,
  pressedWindowMs: 1_000,
  pressedLeastBytes: 1_000,
  signOfLifeMs: 1_000,
};

/** Slots for which so many callers wait, whose Capsules have none. */
const slotsOf = () => ({ waiting: 0, leastOfWaiting: 0, heldBy: (key: string) => (key === 'with' ? 1 : 0) });

let slots = slotsOf();
let pace: Pace;
beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] });
  slots = slotsOf();
  pace = createPace(OPTIONS);
});
afterEach(() => {
  pace.close();
  vi.useRealTimers();
});

/** A reader who takes so many bytes a second, or an upstream that gives as few. */
function reader(
  bytesPerSecond: number,
  { pressed = true, behind = true, whoever = false, held = [slots] } = {},
) {
  const socket = { bytesRead: 0, bytesWritten: 0, writableLength: 0 };
  const mover = setInterval(() => {
    socket.bytesWritten += bytesPerSecond / 10;
  }, 100);
  const ended: Slow[] = [];
  pace.watch({
    request: { complete: true, socket } as unknown as IncomingMessage,
    response: { headersSent: true, writableNeedDrain: behind } as unknown as ServerResponse,
    onSlow: (why) => void ended.push(why),
    onRecheck: () => undefined,
    held: () => held.map((each) => ({ slots: each, key: pressed ? 'with' : 'without', whoever })),
  });
  return { ended, stop: () => clearInterval(mover) };
}

it('a slow caller goes on while nobody waits, and ends when a Capsule with less does', () => {
  const slow = reader(500);
  vi.advanceTimersByTime(5_000);
  expect(slow.ended).toEqual([]);
  slots.waiting = 1;
  vi.advanceTimersByTime(2_000);
  expect(slow.ended).toEqual(['contended']);
  slow.stop();
});

it('who is quick enough, has no more than the others, or waits for the server goes on all the same', () => {
  slots.waiting = 10;
  const all = [reader(2_000), reader(500, { pressed: false }), reader(500, { behind: false })];
  vi.advanceTimersByTime(5_000);
  expect(all.map(({ ended }) => ended)).toEqual([[], [], []]);
  for (const { stop } of all) stop();
});

it('who holds a slot for which whoever has to be fast ends, although it is the server that is slow', () => {
  slots.waiting = 1;
  const all = [reader(500, { behind: false, whoever: true }), reader(2_000, { whoever: true })];
  vi.advanceTimersByTime(2_000);
  expect(all.map(({ ended }) => ended)).toEqual([['contended'], []]);
  for (const { stop } of all) stop();
});

it('no more end at one time than wait', () => {
  const all = Array.from({ length: 8 }, () => reader(500));
  slots.waiting = 2;
  vi.advanceTimersByTime(1_100);
  expect(all.filter(({ ended }) => ended.length > 0)).toHaveLength(2);
  for (const { stop } of all) stop();
});

it('who holds slots of two kinds ends for whoever waits for one of them, and no more end than wait for that kind', () => {
  const documents = { ...slotsOf(), waiting: 2 };
  const both = Array.from({ length: 4 }, () => reader(500, { held: [slots, documents] }));
  const others = Array.from({ length: 4 }, () => reader(500));
  vi.advanceTimersByTime(1_100);
  const endedOf = (all: typeof both) => all.filter(({ ended }) => ended.length > 0).length;
  expect([endedOf(both), endedOf(others)]).toEqual([2, 0]);
  for (const { stop } of [...both, ...others]) stop();
});

it('who moves almost nothing ends whether or not anybody waits', () => {
  const idle = reader(1);
  vi.advanceTimersByTime(10_200);
  expect(idle.ended).toEqual(['idle']);
  idle.stop();
});
