import { afterEach, describe, expect, it, vi } from 'vitest';
import { createLogger } from './log.ts';
import { createMetrics } from './metrics.ts';
import { type Round, startUpkeep, type Upkeep } from './upkeep.ts';

const lines: string[] = [];
const log = createLogger({
  service: 'test',
  level: 'debug',
  destination: { write: (line) => void lines.push(line) },
});
const metrics = createMetrics();
const release: (() => void)[] = [];
let upkeep: Upkeep | undefined;
afterEach(async () => {
  for (const free of release.splice(0)) free();
  await upkeep?.stop();
  lines.length = 0;
});

/** A round that counts how often it began, and ends when it is told to. */
function held(name: string): Round & { begun: number; free: () => void } {
  const round = {
    name,
    gapMs: 0,
    begun: 0,
    free: (): void => undefined,
    run: () => {
      round.begun += 1;
      return new Promise<void>((resolve) => {
        round.free = resolve;
        release.push(resolve);
      });
    },
  };
  return round;
}

/** A round that ends at once. */
function quick(name: string, gapMs = 0): Round & { begun: number } {
  const round = {
    name,
    gapMs,
    begun: 0,
    run: async () => {
      round.begun += 1;
    },
  };
  return round;
}

const soon = (look: () => void | Promise<void>) => vi.waitFor(look, { timeout: 240_000, interval: 5 });

describe('the upkeep', () => {
  it('continues with every other round while one is blocked', async () => {
    const [blocked, refill, drift] = [held('drops'), quick('refill'), quick('drift')];
    upkeep = startUpkeep({ rounds: [blocked, refill, drift], log, metrics, intervalMs: 1 });
    await soon(() => expect(Math.min(refill.begun, drift.begun)).toBeGreaterThan(5));
    expect(blocked.begun).toBe(1);
  });

  it('never runs a round twice at the same time, and once more for all requests in the meantime', async () => {
    const one = held('one');
    upkeep = startUpkeep({ rounds: [one], log, metrics, intervalMs: 1_000_000 });
    for (let i = 0; i < 10; i += 1) upkeep.nudge();
    expect(one.begun).toBe(1);
    one.free();
    await soon(() => expect(one.begun).toBe(2));
    one.free();
    await new Promise((resolve) => setImmediate(resolve));
    expect(one.begun).toBe(2);
  });

  it('keeps the gap, whatever requests it', async () => {
    const [often, seldom] = [quick('often'), quick('seldom', 1_000_000)];
    upkeep = startUpkeep({ rounds: [often, seldom], log, metrics, intervalMs: 1 });
    await soon(() => {
      upkeep?.nudge();
      expect(often.begun).toBeGreaterThan(5);
    });
    expect(seldom.begun).toBe(1);
  });

  it('reports a failure, retries, and measures from its start or from the last success', async () => {
    const told = async () =>
      (await metrics.upkeepEnds.get()).values.find(({ labels }) => labels.round === 'failing');
    let begun = 0;
    const failing: Round = {
      name: 'failing',
      gapMs: 0,
      run: async () => {
        begun += 1;
        if (begun < 3) throw new Error('away');
      },
    };
    upkeep = startUpkeep({ rounds: [failing], log, metrics, intervalMs: 1 });
    expect(await told()).toBeDefined();
    metrics.upkeepEnds.reset();
    await soon(async () => expect(await told()).toBeDefined());
    expect(begun).toBeGreaterThan(2);
    expect(lines.filter((line) => line.includes('"upkeep failed"'))).toHaveLength(2);
    expect(lines[0]).toContain('"failing"');
  });

  it('signals every round to stop, and has stopped when all have ended', async () => {
    const heard: string[] = [];
    const until = (name: string): Round => ({
      name,
      gapMs: 0,
      run: (stopping) =>
        new Promise((resolve) => {
          stopping.addEventListener('abort', () => {
            heard.push(name);
            resolve();
          });
        }),
    });
    const started = startUpkeep({
      rounds: [until('a'), until('b'), quick('c')],
      log,
      metrics,
      intervalMs: 1_000_000,
    });
    await started.stop();
    expect(heard).toEqual(['a', 'b']);
  });
});
