import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decimalsOf, formatAmount, parseAmount } from './money.ts';

const currency = fc.constantFrom('EUR', 'USD', 'JPY', 'KWD');

describe('an amount', () => {
  it('is parsed back from its decimal string, whatever it is', () => {
    fc.assert(
      fc.property(currency, fc.bigInt(-(10n ** 17n), 10n ** 17n), (code, minor) => {
        expect(parseAmount(formatAmount(minor, code), code)).toBe(minor);
      }),
    );
  });

  it('is written with all decimals of its currency', () => {
    fc.assert(
      fc.property(currency, fc.bigInt(-(10n ** 6n), 10n ** 6n), (code, minor) => {
        const [, fraction = ''] = formatAmount(minor, code).split('.');
        expect(fraction).toHaveLength(decimalsOf(code));
      }),
    );
  });

  it.each([
    ['12.5', 'EUR', 1250n],
    ['-0.01', 'EUR', -1n],
    ['1000', 'JPY', 1000n],
    ['1.234', 'KWD', 1234n],
    ['-0', 'EUR', 0n],
  ])('%s %s is %d minor units', (text, code, minor) => expect(parseAmount(text, code)).toBe(minor));

  it.each(['', '1,5', '.5', '5.', '01', '+1', '1e3', ' 1', '0x1', '٣', 'NaN', '1.2.3', '9'.repeat(41)])(
    '%j is refused',
    (text) => expect(parseAmount(text, 'EUR')).toEqual({ problem: expect.stringMatching(/decimal string/) }),
  );

  it.each([
    ['1.234', 'EUR', /has 3 decimals; EUR has 2/],
    ['1.5', 'JPY', /JPY has none/],
    ['100000000000000000.01', 'JPY', /decimals/],
    ['1000000000000000.01', 'EUR', /larger than 1000000000000000.00/],
  ])('%s %s is refused with the reason', (text, code, problem) =>
    expect(parseAmount(text, code)).toEqual({ problem: expect.stringMatching(problem) }),
  );
});
