import { describe, expect, it } from 'vitest';
import { judge, type Measured } from './judge.ts';

const page = (changes: Partial<Measured>): Measured => ({
  ...{ page: 'Capsules', kb: 100, p50_ms: 10, p95_ms: 50, first_paint_p50_ms: 300 },
  ...changes,
});

describe('the pages of the console', () => {
  it('meet their limits where none is above them', () => {
    const { rows, missed } = judge([page({})], { 'one session': 96 });
    expect(rows.map(({ verdict }) => verdict)).toEqual(['met']);
    expect(missed).toEqual([]);
  });

  it.each([
    [{ kb: 100.1 }, 'Capsules: kb is 100.1, the limit is 100'],
    [{ p95_ms: 51 }, 'Capsules: p95_ms is 51.0, the limit is 50'],
    [{ first_paint_p50_ms: 301 }, 'Capsules: first_paint_p50_ms is 301.0, the limit is 300'],
  ])('miss them with %o', (changes, says) => {
    const { rows, missed } = judge([page(changes), page({ page: 'Capsule' })], {});
    expect(missed).toEqual([says]);
    expect(rows.map(({ verdict }) => verdict)).toEqual([`MISSED ${Object.keys(changes)[0]}`, 'met']);
  });

  it('miss them with more memory than a Space is to pay for', () => {
    expect(judge([], { 'one session': 96, 'two sessions': 96.1 }).missed).toEqual([
      'peak memory with two sessions: 96.1 MiB, the limit is 96 MiB',
    ]);
  });
});
