import { describe, expect, it } from 'vitest';
import { explore, type Space } from './explore.ts';

/** Two jugs, of 3 and 5 litres. */
const jugs = (wrongAt?: number): Space<readonly [number, number]> => ({
  initial: [0, 0],
  key: (jug) => jug.join(),
  next: ([a, b]) => {
    const poured = Math.min(a, 5 - b);
    const back = Math.min(b, 3 - a);
    const all: [string, readonly [number, number]][] = [
      ['fill 3', [3, b]],
      ['fill 5', [a, 5]],
      ['empty 3', [0, b]],
      ['empty 5', [a, 0]],
      ['3 into 5', [a - poured, b + poured]],
      ['5 into 3', [a + back, b - back]],
    ];
    return all.map(([label, to]) => ({ label, to, wrong: to[1] === wrongAt ? 'it is there' : undefined }));
  },
});

describe('an exploration', () => {
  it('visits every reachable state once', () => {
    expect(explore(jugs(), 1_000)).toEqual({ states: 16, steps: 96, depth: 8, exhausted: true });
  });

  it('reports a shortest path to a forbidden state', () => {
    const { wrong } = explore(jugs(4), 1_000);
    expect(wrong).toEqual({
      what: 'it is there',
      trace: ['fill 5', '5 into 3', 'empty 3', '5 into 3', 'fill 5', '5 into 3'],
    });
  });

  it('ends at its bound, and says that it is incomplete', () => {
    expect(explore(jugs(), 10)).toMatchObject({ states: 10, exhausted: false });
  });

  it('distinguishes many states', () => {
    const counter: Space<number> = {
      initial: 0,
      key: (n) => `state ${n}`,
      next: (n) => [1, 2].flatMap((by) => (n + by < 200_000 ? [{ label: `+${by}`, to: n + by }] : [])),
    };
    expect(explore(counter, 300_000)).toMatchObject({ states: 200_000, exhausted: true });
  });
});
