import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { coarseAlone } from './coarse.ts';
import { bytesOf } from './quantity.ts';

const MI = 2 ** 20;

describe('usage without a limit of its own', () => {
  it.each([
    [0, '0'],
    [1, '1Mi'],
    [7.9 * MI, '8Mi'],
    [100 * MI, '104Mi'],
    [1_000 * MI, '1Gi'],
    [1_100 * MI, '1152Mi'],
  ])('reports %d bytes as %s', (bytes, told) => expect(coarseAlone(bytes, undefined)).toBe(told));

  it('is never reported as less than it is, nor as an eighth and a mebibyte more', () =>
    fc.assert(
      fc.property(fc.maxSafeNat(), (bytes) => {
        const told = bytesOf(coarseAlone(bytes, undefined)) ?? Number.NaN;
        expect(told).toBeGreaterThanOrEqual(bytes);
        expect(told).toBeLessThanOrEqual(bytes * 1.125 + MI);
      }),
    ));

  it('is reported as before while it oscillates around the border of two steps', () => {
    expect(coarseAlone(100 * MI, 112 * MI)).toBe('104Mi');
    expect(coarseAlone(103 * MI, 112 * MI)).toBe('112Mi');
    expect(coarseAlone(105 * MI, 104 * MI)).toBe('112Mi');
  });
});
