import { describe, expect, test } from 'vitest';
import { graceOf, readGrace } from './grace.ts';
import { names } from './testing/names.ts';

const DELETED = '2026-03-01T10:00:00Z';
const at = (now: string, graceMs = 3_600_000) =>
  graceOf(
    { names: { ...names, graceMs }, now: () => now },
    {
      metadata: { name: 'ledger', deletionTimestamp: DELETED },
    },
  );

describe('what is left of the grace', () => {
  test('is told with its end, and looked at again by then', () => {
    const grace = at('2026-03-01T10:59:00Z');
    expect(grace?.requeueAfterMs).toBe(60_000);
    expect(grace?.finding).toMatchObject({
      status: 'False',
      reason: 'RetentionGrace',
      message: expect.stringContaining('dropped after 2026-03-01T11:00:00.000Z'),
    });
  });

  test('is looked at once an hour where it is long', () => {
    expect(at('2026-03-01T10:00:00Z', 30 * 86_400_000)?.requeueAfterMs).toBe(3_600_000);
  });

  test('is nothing at its end, without a grace, and for what is not deleted', () => {
    expect(at('2026-03-01T11:00:00Z')).toBeUndefined();
    expect(at('2026-03-01T10:00:00Z', 0)).toBeUndefined();
    const kept = { metadata: { name: 'ledger' } };
    expect(graceOf({ names: { ...names, graceMs: 1 }, now: () => DELETED }, kept)).toBeUndefined();
  });

  test('has no end where a time cannot be read', () => {
    expect(at('yesterday')?.finding.reason).toBe('RetentionGrace');
  });
});

test.each([
  ['0', 0],
  ['90s', 90_000],
  ['30m', 1_800_000],
  ['72h', 259_200_000],
  ['366d', 31_622_400_000],
  ['367d', undefined],
  ['1.5h', undefined],
  ['-1h', undefined],
  ['00', undefined],
  ['h', undefined],
  ['', undefined],
])('a grace of "%s" is %s ms', (text, ms) => {
  expect(readGrace(text)).toBe(ms);
});
