import fc from 'fast-check';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { type GiveBack, SharedSlots, type ShareRefusal } from './shares.ts';

/** Lets promises that are settled run what waits for them. */
const settled = () => new Promise<void>((resolve) => setImmediate(resolve));

describe('slots that are shared', () => {
  afterEach(() => void vi.useRealTimers());

  it('one key holds at most its share, and the others get slots', () => {
    const reasons: ShareRefusal[] = [];
    const slots = new SharedSlots({ total: 4, perKey: 2 }, (reason) => reasons.push(reason));
    const own = [slots.tryTake('greedy'), slots.tryTake('greedy'), slots.tryTake('greedy')];
    expect(own.map((slot) => slot !== undefined)).toEqual([true, true, false]);
    expect(slots.tryTake('quiet')).toBeDefined();
    expect(slots.tryTake('other')).toBeDefined();
    expect(slots.tryTake('late')).toBeUndefined();
    expect(reasons).toEqual(['share', 'full']);
  });

  it('are in use while any is held', () => {
    const slots = new SharedSlots({ total: 1, perKey: 1 });
    const giveBack = slots.tryTake('one');
    expect(slots.quietFor()).toBe(0);
    giveBack?.();
    expect(slots.quietFor()).toBeGreaterThanOrEqual(0);
  });

  it('remember, besides those that have one, who else has had one last, for as long as is asked', () => {
    vi.useFakeTimers({ toFake: ['performance'] });
    const slots = new SharedSlots({ total: 4, perKey: 2 });
    const use = (key: string) => slots.tryTake(key)?.();
    const others = () => ['a', 'b', 'c'].filter((key) => slots.hasOther(key, 100));
    expect(others()).toEqual([]);
    use('a');
    expect([others(), slots.hasOther('b')]).toEqual([['b', 'c'], false]);
    vi.advanceTimersByTime(60);
    use('b');
    use('b');
    expect(others()).toEqual(['a', 'b', 'c']);
    vi.advanceTimersByTime(60);
    expect(others()).toEqual(['a', 'c']);
    const back = slots.tryTake('c');
    vi.advanceTimersByTime(100);
    expect(others()).toEqual(['a', 'b']);
    back?.();
    expect(others()).toEqual(['a', 'b']);
    vi.advanceTimersByTime(100);
    expect(others()).toEqual([]);
  });

  it('a slot is returned once, however often its holder returns it', () => {
    const slots = new SharedSlots({ total: 2, perKey: 1 });
    const back = slots.tryTake('a');
    back?.();
    back?.();
    expect(slots.taken).toBe(0);
    expect(slots.heldBy('a')).toBe(0);
  });

  it('a slot goes to the key with the fewest, and to whoever waits, before the key that has returned it', async () => {
    const slots = new SharedSlots({ total: 4, perKey: 3, queued: 8, waitMs: 60_000 });
    const own = [await slots.take('two'), await slots.take('two'), await slots.take('one')];
    const other = await slots.take('other');
    const order: string[] = [];
    const backs = ['two', 'one', 'none'].map((key) =>
      slots.take(key).then((back) => {
        order.push(key);
        return back;
      }),
    );
    other();
    await settled();
    expect(order).toEqual(['none']);
    own[0]?.();
    await settled();
    expect(order).toEqual(['none', 'one']);
    own[1]?.();
    for (const back of [...(await Promise.all(backs)), ...own]) back();
    expect([order, slots.taken]).toEqual([['none', 'one', 'two'], 0]);
  });

  it('a long queue of one key delays no other', async () => {
    const slots = new SharedSlots({ total: 3, perKey: 2, queued: 300, queuedPerKey: 200, waitMs: 60_000 });
    const held = [await slots.take('greedy'), await slots.take('greedy'), await slots.take('other')];
    const order: string[] = [];
    const over = new AbortController();
    const line = Array.from({ length: 100 }, () =>
      slots.take('greedy', over.signal).then(
        () => order.push('greedy'),
        () => undefined,
      ),
    );
    const quiet = slots.take('quiet').then(() => order.push('quiet'));
    held[0]?.();
    await quiet;
    held[2]?.();
    await settled();
    expect(order).toEqual(['quiet', 'greedy']);
    expect(slots.waiting).toBe(99);
    over.abort();
    expect(await Promise.all(line)).toHaveLength(100);
  });

  it('a caller that finds the queue full, or waits too long, gets an error with a time to retry', async () => {
    const slots = new SharedSlots({ total: 2, perKey: 1, queued: 2, queuedPerKey: 1, waitMs: 5 });
    await slots.take('a');
    const waits = slots.take('a');
    await expect(slots.take('a')).rejects.toMatchObject({ code: 'unavailable', retryAfter: 1 });
    await expect(waits).rejects.toMatchObject({ code: 'unavailable' });
    expect(slots.waiting).toBe(0);
  });

  it('a caller that gives up leaves the queue, and its slot goes to the next', async () => {
    const slots = new SharedSlots({ total: 1, perKey: 1, queued: 4, queuedPerKey: 4, waitMs: 60_000 });
    const back = await slots.take('a');
    const gone = new AbortController();
    const given = slots.take('b', gone.signal);
    const next = slots.take('c');
    gone.abort(new Error('left'));
    await expect(given).rejects.toThrow('left');
    back();
    (await next)();
    expect([slots.taken, slots.waiting]).toEqual([0, 0]);
  });

  it.each([
    [0, 4],
    [5, 4],
  ])('a share of %i of %i slots is refused', (perKey, total) => {
    expect(() => new SharedSlots({ total, perKey })).toThrow(RangeError);
  });

  it('a part of the free slots is left for later callers, however many came before', () => {
    const slots = new SharedSlots({ total: 320, perKey: 64, ofFree: 1 / 4 });
    const takeAll = (key: string) => {
      while (slots.tryTake(key) !== undefined);
      return slots.heldBy(key);
    };
    expect(['a', 'b', 'c', 'd'].map(takeAll)).toEqual([64, 52, 41, 33]);
    for (let n = 0; n < 12; n += 1) takeAll(`more-${n}`);
    expect(slots.taken).toBeLessThan(320);
    expect(slots.tryTake('late')).toBeDefined();
  });

  it('a returned slot admits every caller that may have one now, with few or many', async () => {
    const slots = new SharedSlots({ total: 8, perKey: 4, ofFree: 1 / 2, queued: 8 });
    const first = Array.from({ length: 3 }, () => slots.tryTake('a'));
    const others = [slots.tryTake('b'), slots.tryTake('b')];
    expect([slots.heldBy('a'), slots.heldBy('b')]).toEqual([3, 2]);
    const waiting = [slots.take('a'), slots.take('b')];
    expect(slots.leastOfWaiting).toBe(2);
    for (const back of others) back?.();
    await Promise.all(waiting.slice(1));
    for (const back of first) back?.();
    await Promise.all(waiting);
    expect(slots.leastOfWaiting).toBeUndefined();
  });

  it('at most all slots or a share are held, and no slot stays free while a caller may have it', async () => {
    const step = fc.record({
      act: fc.constantFrom('take', 'try', 'back', 'abort'),
      key: fc.nat(3),
      which: fc.nat(20),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 80 }), async (steps) => {
        const [total, perKey] = [4, 2];
        const slots = new SharedSlots({ total, perKey, queued: 12, queuedPerKey: 6, waitMs: 3_600_000 });
        const held: { key: string; back: GiveBack }[] = [];
        const lines: { key: string; gone: AbortController }[] = [];
        const take = (key: string) => {
          const line = { key, gone: new AbortController() };
          lines.push(line);
          const leave = () => lines.splice(lines.indexOf(line), 1);
          slots.take(key, line.gone.signal).then((back) => {
            leave();
            held.push({ key, back });
          }, leave);
        };
        const acts = {
          take,
          try: (key: string) => {
            const back = slots.tryTake(key);
            if (back !== undefined) held.push({ key, back });
          },
          back: (_: string, which: number) => held.splice(which % Math.max(1, held.length), 1)[0]?.back(),
          abort: (_: string, which: number) => lines[which % Math.max(1, lines.length)]?.gone.abort(),
        };
        for (const { act, key, which } of steps) {
          acts[act](`key-${key}`, which);
          await settled();
          const count = (of: { key: string }[], name: string) => of.filter((one) => one.key === name).length;
          expect(slots.taken).toBe(held.length);
          expect(slots.waiting).toBe(lines.length);
          expect(held.length).toBeLessThanOrEqual(total);
          for (const { key: name } of held) expect(count(held, name)).toBeLessThanOrEqual(perKey);
          const couldHave = lines.some((line) => count(held, line.key) < perKey);
          expect(held.length < total && couldHave).toBe(false);
        }
        for (const { gone } of [...lines]) gone.abort();
        await settled();
        for (const { back } of held.splice(0)) back();
        expect([slots.taken, slots.waiting]).toEqual([0, 0]);
      }),
      { numRuns: 300 },
    );
  });
});
