import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { chosen, pointsAround, type Span } from './choose.ts';

const iso = (second: number) => new Date(second * 1_000).toISOString();
const date = (second: number) => new Date(second * 1_000);

/** What happened to a key: at each second at most one thing. */
interface Event {
  readonly at: number;
  readonly key: string;
  readonly kind: 'put' | 'delete';
}

interface State {
  readonly key: string;
  /** Distinguishes contents. */
  readonly put: number;
  readonly last_modified: string;
}

interface SimulatedPoint extends Span {
  readonly entries: readonly State[];
  readonly readAt: ReadonlyMap<string, number>;
}

const KEYS = ['a', 'b', 'c', 'custody/v1/x'];

function stateAt(history: readonly Event[], key: string, at: number): State | undefined {
  const last = history.filter((event) => event.key === key && event.at <= at).at(-1);
  return last?.kind === 'put' ? { key, put: last.at, last_modified: iso(last.at) } : undefined;
}

const HISTORY = fc
  .array(
    fc.record({
      at: fc.integer({ min: 0, max: 60 }),
      key: fc.constantFrom(...KEYS),
      kind: fc.constantFrom('put' as const, 'put' as const, 'delete' as const),
    }),
    { maxLength: 30 },
  )
  .map((events) => {
    const one = new Map(events.map((event) => [`${event.key} ${event.at}`, event]));
    return [...one.values()].sort((x, y) => x.at - y.at);
  });

/** A run reads each key at some moment of its own, so that a point is of no one moment. */
const RUNS = fc.array(
  fc.record({
    started: fc.integer({ min: 0, max: 60 }),
    lasts: fc.integer({ min: 0, max: 10 }),
    reads: fc.array(fc.nat(), { minLength: KEYS.length, maxLength: KEYS.length }),
  }),
  { minLength: 1, maxLength: 5 },
);

const WORLD = fc.record({ history: HISTORY, runs: RUNS, at: fc.integer({ min: 0, max: 70 }) });

type World = typeof WORLD extends fc.Arbitrary<infer W> ? W : never;

function pointsOf({ history, runs }: World): SimulatedPoint[] {
  const points = runs.map(({ started, lasts, reads }, i) => {
    const readAt = new Map(KEYS.map((key, k) => [key, started + ((reads[k] ?? 0) % (lasts + 1))]));
    const entries = KEYS.flatMap((key) => stateAt(history, key, readAt.get(key)!) ?? []);
    return { name: `p${i}`, started: date(started), finished: date(started + lasts), entries, readAt };
  });
  return points.sort((x, y) => x.started.getTime() - y.started.getTime());
}

const nameOf = (key: string) => createHash('sha256').update(key).digest('hex');

const reader = (point: SimulatedPoint | undefined) =>
  point &&
  async function* () {
    yield* point.entries;
  };

async function restored(world: World) {
  const points = pointsOf(world);
  const { before, after } = pointsAround(points, date(world.at));
  const newest = points.at(-1)!;
  const around = { before: reader(before), after: reader(after) };
  const { anchors, others } = chosen(around, reader(newest)!, date(world.at), nameOf);
  const entries = [...(await Array.fromAsync(anchors())), ...(await Array.fromAsync(others()))];
  const result = new Map(entries.map((entry) => [entry.key, entry]));
  expect(result.size).toBe(entries.length);
  return { before, after, newest, result };
}

const changes = ({ history }: World, key: string, from: number, to: number) =>
  history.some((event) => event.key === key && event.at > from && event.at <= to);

function everyKey(
  check: (world: World, key: string, found: Awaited<ReturnType<typeof restored>>) => void,
): Promise<void> {
  return fc.assert(
    fc.asyncProperty(WORLD, async (world) => {
      const found = await restored(world);
      for (const key of KEYS) if (!key.startsWith('custody/')) check(world, key, found);
    }),
    { numRuns: 2_000 },
  );
}

describe('a restore to a time', () => {
  test('has each object that existed and did not change until the later point read it', async () => {
    await everyKey((world, key, { after, result }) => {
      const then = stateAt(world.history, key, world.at);
      if (after === undefined || then === undefined) return;
      if (changes(world, key, world.at, after.readAt.get(key)!)) return;
      expect(result.get(key)).toEqual(then);
    });
  });

  test('has each key that did not change since the earlier point read it exactly as then, present or not', async () => {
    await everyKey((world, key, { before, result }) => {
      if (before === undefined || changes(world, key, before.readAt.get(key)!, world.at)) return;
      expect(result.get(key)).toEqual(stateAt(world.history, key, world.at));
    });
  });

  test('has every other key of the earlier point in the state of that point, and never another state', async () => {
    await everyKey((world, key, { before, after, result }) => {
      const found = result.get(key);
      const early = before && stateAt(world.history, key, before.readAt.get(key)!);
      const then = stateAt(world.history, key, world.at);
      if (early !== undefined) expect(found).toBeDefined();
      if (found !== undefined) expect([early, then]).toContainEqual(found);
      if (before === undefined && after === undefined) expect(found).toBeUndefined();
    });
  });

  test('has nothing that is newer than that time', async () => {
    await everyKey((world, key, { result }) => {
      expect(result.get(key)?.put ?? 0).toBeLessThanOrEqual(world.at);
    });
  });

  test('has the anchors as in the newest point, and nothing else of that', async () => {
    await fc.assert(
      fc.asyncProperty(WORLD, async (world) => {
        const { newest, result } = await restored(world);
        const anchors = [...result.values()].filter(({ key }) => key.startsWith('custody/v1/'));
        expect(anchors).toEqual(newest.entries.filter(({ key }) => key.startsWith('custody/v1/')));
      }),
    );
  });
});

test('the points around a time are the last finished before and the first begun after it', () => {
  const span = (name: string, started: number, finished: number): Span => ({
    name,
    started: date(started),
    finished: date(finished),
  });
  const points = [span('a', 0, 5), span('b', 10, 30), span('c', 20, 25), span('d', 40, 45)];
  const names = (at: number) => {
    const { before, after } = pointsAround(points, date(at));
    return [before?.name, after?.name];
  };
  expect(names(0)).toEqual([undefined, 'a']);
  expect(names(5)).toEqual([undefined, 'b']);
  expect(names(6)).toEqual(['a', 'b']);
  expect(names(22)).toEqual(['a', 'd']);
  expect(names(28)).toEqual(['c', 'd']);
  expect(names(31)).toEqual(['b', 'd']);
  expect(names(50)).toEqual(['d', undefined]);
});
