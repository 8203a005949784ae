import fc from 'fast-check';
import { describe, expect, test, vi } from 'vitest';
import { fakeClock } from '../testing/fake-clock.ts';
import { Queue } from './queue.ts';

function makeQueue() {
  const clock = fakeClock();
  return { clock, queue: new Queue({ clock, firstRetryMs: 5, longestRetryMs: 80 }) };
}

describe('the queue', () => {
  test('hands a key out once, however often it was added', async () => {
    const { queue } = makeQueue();
    queue.add('a');
    queue.add('a');
    queue.add('b');
    expect([await queue.take(), await queue.take(), queue.depth]).toEqual(['a', 'b', 0]);
  });

  test('gives a key that was added while worked on back once, after it is done', async () => {
    const { queue } = makeQueue();
    queue.add('a');
    await queue.take();
    queue.add('a');
    queue.add('a');
    expect(queue.depth).toBe(0);
    queue.done('a');
    expect(await queue.take()).toBe('a');
    queue.done('a');
    expect(queue.depth).toBe(0);
  });

  test('handles live changes before those of a list, also for the same key', async () => {
    const { queue } = makeQueue();
    queue.add('old-1', 'low');
    queue.add('old-2', 'low');
    queue.add('new', 'live');
    queue.add('old-2', 'live');
    expect([await queue.take(), await queue.take(), await queue.take()]).toEqual(['new', 'old-2', 'old-1']);
  });

  const owned = () =>
    new Queue({ clock: fakeClock(), ownerOf: (key) => (key.includes('/') ? key.split('/')[0] : undefined) });

  test('serves owners in turn, however many keys one of them has', async () => {
    const queue = owned();
    for (const key of ['a/1', 'a/2', 'a/3', 'b/1', 'c/1', 'b/2']) queue.add(key);
    const order: (string | undefined)[] = [];
    for (let i = 0; i < 6; i++) {
      const key = await queue.take();
      order.push(key);
      if (key !== undefined) queue.done(key);
    }
    expect(order).toEqual(['a/1', 'b/1', 'c/1', 'a/2', 'b/2', 'a/3']);
  });

  test('lets no owner occupy more workers than are left for others, and continues when they are free again', async () => {
    const queue = owned();
    const taken: string[] = [];
    const work = () => void queue.take().then((key) => key !== undefined && taken.push(key));
    for (let i = 0; i < 8; i++) work();
    for (const owner of ['a', 'b', 'c', 'd', 'e'])
      for (let i = 0; i < 9; i++) {
        queue.add(`${owner}/${i}`);
        await Promise.resolve();
      }
    const of = (owner: string) => taken.filter((key) => key.startsWith(owner)).length;
    expect(['a', 'b', 'c', 'd', 'e'].map(of)).toEqual([4, 2, 1, 1, 0]);

    // Whose have few are first to have another.
    for (const key of ['a/0', 'a/1']) {
      queue.done(key);
      work();
      await Promise.resolve();
    }
    expect(['a', 'b', 'c', 'd', 'e'].map(of)).toEqual([4, 2, 1, 1, 1]);
    expect(queue.depth).toBe(36);
  });

  test('gives keys without an owner all workers', async () => {
    const queue = owned();
    for (let i = 0; i < 4; i++) queue.add(`${i}`);
    expect(await Promise.all([0, 1, 2, 3].map(() => queue.take()))).toEqual(['0', '1', '2', '3']);
  });

  test('doubles the wait of a key that fails, up to a limit, until it is forgotten', () => {
    const { clock, queue } = makeQueue();
    const waits: number[] = [];
    for (let i = 0; i < 6; i++) {
      queue.addRateLimited('a');
      let waited = 0;
      while (queue.depth === 0) {
        clock.advance(1);
        waited += 1;
      }
      waits.push(waited);
      void queue.take();
      queue.done('a');
    }
    expect(waits).toEqual([5, 10, 20, 40, 80, 80]);
    queue.forget('a');
    queue.addRateLimited('a');
    clock.advance(5);
    expect(queue.depth).toBe(1);
  });

  test('waits at least as long as the server asked for', () => {
    const { clock, queue } = makeQueue();
    queue.addRateLimited('a', 3000);
    clock.advance(2999);
    expect(queue.depth).toBe(0);
    clock.advance(1);
    expect(queue.depth).toBe(1);
  });

  test('keeps the earliest of several times', () => {
    const { clock, queue } = makeQueue();
    queue.addAfter('a', 100);
    queue.addAfter('a', 20);
    queue.addAfter('a', 500);
    clock.advance(20);
    expect(queue.depth).toBe(1);
  });

  test('visits no other waiting key when one is due, since most of many keys always wait', () => {
    const { queue, clock } = makeQueue();
    for (let i = 0; i < 100; i += 1) queue.addAfter(`key-${i}`, 10 + i);
    const looks = vi.spyOn(Map.prototype, Symbol.iterator);
    try {
      clock.advance(10);
      expect(queue.depth).toBe(1);
      expect(looks).not.toHaveBeenCalled();
    } finally {
      looks.mockRestore();
    }
  });

  test('keeps the urgency of any of several times', async () => {
    const { clock, queue } = makeQueue();
    queue.addAfter('a', 20, 'low');
    queue.addAfter('a', 100, 'live');
    queue.add('b', 'low');
    clock.advance(20);
    expect(await queue.take()).toBe('a');
  });

  test('keeps workers free for what is live while much is low', async () => {
    const clock = fakeClock();
    const queue = new Queue({ clock, lowAtOnce: 2, lowForMs: 50 });
    for (const key of ['a', 'b', 'c', 'd']) queue.add(key, 'low');
    expect([await queue.take(), await queue.take()]).toEqual(['a', 'b']);
    const third = queue.take();
    queue.add('d', 'live');
    expect(await third).toBe('d');
    const fourth = queue.take();
    queue.done('d');
    expect(queue.depth).toBe(1);
    queue.done('a');
    expect(await fourth).toBe('c');
    expect(['b', 'c', 'd'].map((key) => queue.running(key))).toEqual(['low', 'low', undefined]);
    // Those two wait for somebody else.
    queue.add('e', 'low');
    const fifth = queue.take();
    clock.advance(50);
    expect(await fifth).toBe('e');
  });

  test('gives a failed key back with the urgency that it had', async () => {
    const { clock, queue } = makeQueue();
    queue.add('a', 'low');
    await queue.take();
    queue.addRateLimited('a');
    queue.done('a');
    clock.advance(5);
    queue.add('b', 'live');
    expect([await queue.take(), await queue.take()]).toEqual(['b', 'a']);
  });

  test('releases its waiting workers when it is closed', async () => {
    const { queue } = makeQueue();
    const taken = queue.take();
    queue.close();
    queue.add('a');
    expect([await taken, await queue.take()]).toEqual([undefined, undefined]);
  });

  test('refuses the completion of work that was not handed out', () => {
    expect(() => makeQueue().queue.done('a')).toThrow('a was not being worked on');
  });
});

/** The queue as a specification: what is owed, what is being worked on, and nothing else. */
class Model {
  readonly owed = new Set<string>();
  readonly working = new Set<string>();
  readonly waiting = new Map<string, number>();
  now = 0;
}

const KEYS = ['a', 'b', 'c'];

class Add implements fc.AsyncCommand<Model, Real> {
  readonly key: string;
  readonly low: boolean;
  constructor(key: string, low: boolean) {
    this.key = key;
    this.low = low;
  }
  check = () => true;
  async run(model: Model, { queue }: Real) {
    model.owed.add(this.key);
    queue.add(this.key, this.low ? 'low' : 'live');
    agree(model, queue);
  }
  toString = () => `add ${this.key}${this.low ? ' low' : ''}`;
}

class AddAfter implements fc.AsyncCommand<Model, Real> {
  readonly key: string;
  readonly ms: number;
  constructor(key: string, ms: number) {
    this.key = key;
    this.ms = ms;
  }
  check = () => true;
  async run(model: Model, { queue }: Real) {
    const at = Math.min(model.now + this.ms, model.waiting.get(this.key) ?? Number.POSITIVE_INFINITY);
    model.waiting.set(this.key, at);
    queue.addAfter(this.key, this.ms);
    agree(model, queue);
  }
  toString = () => `add ${this.key} after ${this.ms}`;
}

class Take implements fc.AsyncCommand<Model, Real> {
  check = (model: Model) => [...model.owed].some((key) => !model.working.has(key));
  async run(model: Model, { queue }: Real) {
    const key = (await queue.take()) ?? 'nothing';
    expect(model.owed.has(key)).toBe(true);
    expect(model.working.has(key)).toBe(false);
    model.owed.delete(key);
    model.working.add(key);
    agree(model, queue);
  }
  toString = () => 'take';
}

class Done implements fc.AsyncCommand<Model, Real> {
  check = (model: Model) => model.working.size > 0;
  async run(model: Model, { queue }: Real) {
    const [key = ''] = model.working;
    model.working.delete(key);
    queue.done(key);
    agree(model, queue);
  }
  toString = () => 'done';
}

class Advance implements fc.AsyncCommand<Model, Real> {
  readonly ms: number;
  constructor(ms: number) {
    this.ms = ms;
  }
  check = () => true;
  async run(model: Model, { queue, clock }: Real) {
    model.now += this.ms;
    for (const [key, at] of model.waiting) {
      if (at > model.now) continue;
      model.waiting.delete(key);
      model.owed.add(key);
    }
    clock.advance(this.ms);
    agree(model, queue);
  }
  toString = () => `${this.ms} ms pass`;
}

interface Real {
  readonly queue: Queue;
  readonly clock: ReturnType<typeof fakeClock>;
}

function agree(model: Model, queue: Queue): void {
  const ready = [...model.owed].filter((key) => !model.working.has(key));
  expect(queue.depth).toBe(ready.length);
}

test('no key is lost, duplicated or processed twice at once, in any order of calls', async () => {
  const key = fc.constantFrom(...KEYS);
  const commands = fc.commands(
    [
      fc.tuple(key, fc.boolean()).map(([name, low]) => new Add(name, low)),
      fc.tuple(key, fc.integer({ min: 1, max: 50 })).map(([name, ms]) => new AddAfter(name, ms)),
      fc.constant(new Take()),
      fc.constant(new Done()),
      fc.integer({ min: 1, max: 60 }).map((ms) => new Advance(ms)),
    ],
    { maxCommands: 60 },
  );
  await fc.assert(
    fc.asyncProperty(commands, async (list) => {
      await fc.asyncModelRun(() => ({ model: new Model(), real: makeQueue() }), list);
    }),
    { numRuns: 300 },
  );
});
