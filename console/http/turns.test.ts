import { EventEmitter } from 'node:events';
import type { ServerResponse } from 'node:http';
import { describe, expect, it } from 'vitest';
import { Turns } from './turns.ts';

/** A connection whose client reads its answer when the test says so. */
class Reader extends EventEmitter {
  destroyed = false;
  closed = false;
  destroy() {
    this.destroyed = true;
    this.leave();
  }
  leave() {
    this.closed = true;
    this.emit('close');
  }
}
const enter = (turns: Turns, person: string, reader = new Reader()) =>
  turns.enter(person, reader as unknown as ServerResponse);

describe('a person who requests many pages at once', () => {
  it('gets a few at a time, others wait, and more are refused; another person is not affected', async () => {
    const turns = new Turns();
    const [reader, leaving] = [new Reader(), [] as (() => void)[]];
    let waiting = 0;
    let refused = 0;
    for (let count = 0; count < 100; count += 1) {
      waiting += 1;
      enter(turns, 'eve', reader)
        .then((leave) => leaving.push(leave))
        .catch(() => {
          refused += 1;
        })
        .finally(() => {
          waiting -= 1;
        });
    }
    await new Promise((resolve) => setImmediate(resolve));
    expect([leaving.length, waiting, refused]).toEqual([8, 32, 60]);
    expect(await enter(turns, 'mia')).toBeTypeOf('function');
  });

  it('gets no more of them by disconnecting before they are ready', async () => {
    const turns = new Turns();
    const readers = Array.from({ length: 8 }, () => new Reader());
    const leaving = await Promise.all(readers.map((one) => enter(turns, 'eve', one)));
    for (const one of readers) one.leave();
    let isIn = false;
    const next = enter(turns, 'eve').then(() => {
      isIn = true;
    });
    await new Promise((resolve) => setImmediate(resolve));
    expect(isIn).toBe(false);
    leaving[0]?.();
    await next;
  });

  it('stops waiting after a disconnect', async () => {
    const turns = new Turns();
    for (let count = 0; count < 8; count += 1) await enter(turns, 'eve');
    const gone = new Reader();
    const waited = enter(turns, 'eve', gone);
    gone.leave();
    await expect(waited).rejects.toThrow();
  });

  it('and does not read an answer keeps the slot for a limited time', async () => {
    const turns = new Turns({ readMs: 20 });
    const slow = new Reader();
    const leaving = [await enter(turns, 'eve', slow)];
    for (let count = 1; count < 8; count += 1) leaving.push(await enter(turns, 'eve'));
    leaving[0]?.();
    expect(slow.destroyed).toBe(false);
    await enter(turns, 'eve');
    expect(slow.destroyed).toBe(true);
  });
});
