import { describe, expect, test } from 'vitest';
import { type Clocks, differenceOf, graceOf, readGrace } from './grace.ts';

const DELETED = '2026-03-01T10:00:00Z';
const HOUR = 3_600_000;
const ms = (time: string) => Date.parse(`2026-03-01T${time}:00Z`);
const deleted = { metadata: { name: 'ledger', deletionTimestamp: DELETED } };
/** Clocks that agree, of an operator that started the day before. */
const all = (now: number): Clocks => ({
  ...{ own: now, steady: now, server: now },
  startedAt: ms('10:00') - 24 * HOUR,
});
const at = (now: string, graceMs = HOUR) => graceOf({ graceMs }, all(Date.parse(now)), deleted);

describe('the rest of the grace period', () => {
  test('is reported with its end, and checked again by then', () => {
    const grace = at('2026-03-01T10:59:00Z');
    expect(grace?.requeueAfterMs).toBe(60_000);
    expect(grace?.finding).toMatchObject({
      status: 'False',
      reason: 'RetentionGrace',
      message: expect.stringContaining('dropped after 2026-03-01T11:00:00.000Z'),
    });
  });

  test('is checked once an hour if it is long', () => {
    expect(at('2026-03-01T10:00:00Z', 30 * 86_400_000)?.requeueAfterMs).toBe(3_600_000);
  });

  test('is zero at its end, without a grace period, and for objects that are not deleted', () => {
    expect(at('2026-03-01T11:00:00Z')).toBeUndefined();
    expect(at('2026-03-01T10:00:00Z', 0)).toBeUndefined();
    const kept = { metadata: { name: 'ledger' } };
    expect(graceOf({ graceMs: 1 }, all(ms('10:00')), kept)).toBeUndefined();
  });

  test('has no end if a time cannot be parsed', () => {
    expect(at('yesterday')?.finding.reason).toBe('RetentionGrace');
  });
});

describe('if clocks differ', () => {
  const [now, later] = [ms('10:30'), ms('12:30')];

  test.each([
    ['this machine’s clock', { own: later }],
    ['the API server’s clock', { server: later }],
    ['both, set since the operator started', { own: later, server: later }],
    [
      'both, and the operator started with them',
      { own: later, server: later, steady: later, startedAt: later },
    ],
  ])('no grace period ends early because %s is ahead', (_, wrong) => {
    expect(graceOf({ graceMs: HOUR }, { ...all(now), ...wrong }, deleted)).toMatchObject({
      finding: { reason: 'RetentionGrace' },
    });
  });

  test('it ends once the slowest clock says so', () => {
    expect(graceOf({ graceMs: HOUR }, { ...all(later), server: ms('10:59') }, deleted)?.requeueAfterMs).toBe(
      60_000,
    );
    expect(graceOf({ graceMs: HOUR }, { ...all(later), server: ms('11:00') }, deleted)).toBeUndefined();
    expect(graceOf({ graceMs: HOUR }, { ...all(later), server: undefined }, deleted)).toBeUndefined();
  });

  test('it counts from the first report if the API server backdated the deletion', () => {
    const conditions = [
      {
        ...{ type: 'Finalized', status: 'False' as const, reason: 'PodsRemain', message: '' },
        lastTransitionTime: '2026-03-01T11:45:00Z',
      },
    ];
    const grace = graceOf({ graceMs: HOUR }, all(later), { ...deleted, status: { conditions } });
    expect(grace?.requeueAfterMs).toBe(900_000);
    expect(grace?.finding.message).toContain('dropped after 2026-03-01T12:45:00.000Z');
  });

  test('an operator drops nothing within its first hour, or within a shorter grace period', () => {
    const started = { ...all(later), startedAt: later - 60_000 };
    const grace = graceOf({ graceMs: HOUR }, started, deleted);
    expect(grace?.requeueAfterMs).toBe(HOUR - 60_000);
    expect(grace?.finding.message).toContain('dropped after 2026-03-01T13:29:00.000Z');
    expect(graceOf({ graceMs: 60_000 }, started, deleted)).toBeUndefined();
  });

  test('a difference of more than a minute is reported', () => {
    expect(differenceOf({ ...all(now), server: now + 60_000 })).toBeUndefined();
    expect(differenceOf({ ...all(now), server: undefined, steady: now - 90_000 })).toBe(90_000);
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
