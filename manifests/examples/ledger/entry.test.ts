import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { checkEntry } from './entry.ts';

const debit = { account: 'expenses:food', currency: 'EUR', amount: '3.10' };
const credit = { account: 'assets:bank', currency: 'EUR', amount: '-3.10' };
const entry = (changes: object = {}) => ({ description: 'Lunch', lines: [debit, credit], ...changes });

describe('a request to post an entry', () => {
  it('becomes lines in minor units', () => {
    expect(checkEntry(entry({ date: '2026-02-28', idempotency_key: 'a_1' }))).toEqual({
      ok: true,
      value: {
        date: '2026-02-28',
        description: 'Lunch',
        idempotencyKey: 'a_1',
        lines: [
          { account: 'expenses:food', currency: 'EUR', minor: 310n },
          { account: 'assets:bank', currency: 'EUR', minor: -310n },
        ],
      },
    });
  });

  it.each([
    ['no object', [], ''],
    ['a date that is in no calendar', entry({ date: '2026-02-30' }), '/date'],
    ['a description of nothing', entry({ description: ' ' }), '/description'],
    ['a description of two lines', entry({ description: 'a\nb' }), '/description'],
    ['no description', { lines: [debit, credit] }, '/description'],
    ['a key with a space', entry({ idempotency_key: 'a b' }), '/idempotency_key'],
    ['an unknown property', entry({ tags: [] }), '/tags'],
    ['one line', entry({ lines: [debit] }), '/lines'],
    ['a line that is null', entry({ lines: [debit, null] }), '/lines/1'],
    ['an unknown property of a line', entry({ lines: [debit, { ...credit, memo: '' }] }), '/lines/1/memo'],
    ['an account of no kind', entry({ lines: [{ ...debit, account: 'food' }, credit] }), '/lines/0/account'],
    ['a kind alone', entry({ lines: [{ ...debit, account: 'assets' }, credit] }), '/lines/0/account'],
    [
      'a currency in small letters',
      entry({ lines: [{ ...debit, currency: 'eur' }, credit] }),
      '/lines/0/currency',
    ],
    ['an amount that is a number', entry({ lines: [debit, { ...credit, amount: -3.1 }] }), '/lines/1/amount'],
    ['an amount of zero', entry({ lines: [{ ...debit, amount: '0.00' }, credit] }), '/lines/0/amount'],
    ['lines that leave a rest', entry({ lines: [debit, { ...credit, amount: '-3.09' }] }), '/lines'],
  ])('is refused with %s', (_, body, at) => {
    const checked = checkEntry(body);
    expect(checked.ok ? [] : checked.problems.map((problem) => problem.at)).toEqual([at]);
  });

  it('reports all faults at once', () => {
    const checked = checkEntry({ date: 1, description: 2, lines: [{}, { ...credit, amount: 'x' }] });
    expect(checked.ok ? [] : checked.problems.map(({ at }) => at)).toEqual([
      '/date',
      '/description',
      '/lines/0/account',
      '/lines/0/currency',
      '/lines/1/amount',
    ]);
  });

  it('balances each currency by itself', () => {
    const dollars = { ...credit, currency: 'USD' };
    const checked = checkEntry(entry({ lines: [debit, dollars] }));
    expect(checked.ok ? [] : checked.problems.map(({ message }) => message)).toEqual([
      expect.stringContaining('EUR is off by 3.10'),
      expect.stringContaining('USD is off by -3.10'),
    ]);
  });

  it('never crashes the check, whatever it is', () => {
    fc.assert(
      fc.property(fc.oneof(fc.jsonValue(), fc.record({ lines: fc.array(fc.jsonValue()) })), (body) => {
        expect(checkEntry(body).ok).toBe(false);
      }),
    );
  });
});
