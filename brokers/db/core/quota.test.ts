import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decideQuota, doorsOf, OPEN, type QuotaState, standingOf } from './quota.ts';

const MI = 2 ** 20;
const LIMIT = 1_000 * MI;
const tidying: QuotaState = { door: 'tidying', tries: 0, ceiling: 1_100 * MI, until: 0 };
const shut: QuotaState = { door: 'shut', tries: 1, ceiling: 0, until: 5_000 };

describe('a Capsule', () => {
  it.each<[string, QuotaState, number, Partial<QuotaState>]>([
    ['within its limit stays open', OPEN, LIMIT, OPEN],
    ['beyond it is let in to make room', OPEN, LIMIT + 1, { door: 'tidying', ceiling: LIMIT + 1 + 16 * MI }],
    ['that makes room may not fill it again', tidying, 1_050 * MI, { door: 'tidying', ceiling: 1_066 * MI }],
    ['that grows is shut out', tidying, 1_101 * MI, { door: 'shut', tries: 1, until: 61_000 }],
    ['that grows again is shut out for longer', { ...tidying, tries: 3 }, 1_101 * MI, { until: 481_000 }],
    ['that is shut out waits', shut, 1_101 * MI, shut],
    ['that waited is let in again', { ...shut, until: 1_000 }, 1_101 * MI, { door: 'tidying', tries: 1 }],
    [
      'that was shut out before the clock was set back is let in again',
      { ...shut, until: 1_000 + 3_600_001 },
      1_101 * MI,
      { door: 'tidying', tries: 1 },
    ],
    [
      'waits for no longer than the longest pause',
      { ...shut, until: 3_601_000 },
      1_101 * MI,
      { door: 'shut' },
    ],
    ['that made room is open', tidying, 950 * MI, OPEN],
    ['that made some stays where it is', tidying, 951 * MI, { door: 'tidying' }],
    ['far beyond its limit is closed', tidying, 1_267 * MI, { door: 'closed' }],
    ['stays closed', { ...tidying, door: 'closed' }, 1_267 * MI, { door: 'closed' }],
    [
      'whose limit was raised is let in',
      { ...tidying, door: 'closed', tries: 9 },
      1_200 * MI,
      { door: 'tidying', tries: 0 },
    ],
  ])('%s', (_, state, used, expected) => {
    expect(decideQuota(state, used, LIMIT, 1_000)).toMatchObject(expected);
  });

  it.each<[string, QuotaState, number]>([
    ['within its limit', { ...OPEN, tries: 2 }, LIMIT],
    ['closed, far beyond its limit', { ...tidying, door: 'closed' }, 1_300 * MI],
    ['that has not freed as much as it may fill', tidying, 1_090 * MI],
    ['that has freed exactly as much', tidying, 1_084 * MI],
    ['that fills all that it may', tidying, 1_100 * MI],
  ])('%s is unchanged', (_, state, used) => {
    expect(decideQuota(state, used, LIMIT, 1_000)).toBe(state);
  });

  it('is closed above its limit plus a quarter and what deleting needs, and not before', () => {
    const high = { ...tidying, ceiling: 2_000 * MI };
    expect(decideQuota(high, 1_266 * MI, LIMIT, 0).door).toBe('tidying');
    expect(decideQuota(high, 1_266 * MI + 1, LIMIT, 0)).toEqual({ ...high, door: 'closed' });
  });

  it.each([
    ['open', true, 20],
    ['tidying', true, 1],
    ['shut', false, 20],
    ['closed', false, 20],
  ] as const)('that is %s is let in: %s, with %i connections', (door, open, connections) => {
    expect(doorsOf(door, 20)).toEqual({ open, connections });
  });

  it('cannot exceed its limit by more than a quarter, a slack, and what it writes between two checks', () => {
    const writes = fc.array(
      fc.record({ bytes: fc.integer({ min: -20, max: 200 }), pause: fc.nat(4_000_000) }),
      {
        maxLength: 200,
      },
    );
    fc.assert(
      fc.property(writes, (steps) => {
        let state = OPEN;
        let [used, now] = [0, 0];
        for (const { bytes, pause } of steps) {
          // A tenant without access writes nothing.
          if (state.door === 'open' || state.door === 'tidying') used = Math.max(0, used + bytes * MI);
          now += pause;
          state = decideQuota(state, used, LIMIT, now);
          expect(used).toBeLessThanOrEqual(LIMIT * 1.25 + (16 + 200) * MI);
          if (state.door === 'open') expect(used).toBeLessThanOrEqual(LIMIT);
        }
      }),
    );
  });

  it.each([
    ['ok', 'open', 799],
    ['near', 'open', 800],
    ['near', 'open', 1_000],
    ['full', 'open', 1_001],
    ['full', 'tidying', 990],
    ['full', 'shut', 1_100],
    ['closed', 'closed', 1_300],
  ] as const)('is told to be %s', (standing, door, used) => {
    expect(standingOf(door, used * MI, LIMIT)).toBe(standing);
  });
});
