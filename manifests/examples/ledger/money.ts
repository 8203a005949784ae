/**
 * Money as whole minor units (cents, say) in a bigint, written as decimal strings. Never a floating-point number.
 */

/** ISO 4217 currencies that do not have two decimals. */
const DECIMALS: Readonly<Record<string, number>> = {
  ...Object.fromEntries(
    'BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF'.split(' ').map((code) => [code, 0]),
  ),
  ...Object.fromEntries('BHD IQD JOD KWD LYD OMR TND'.split(' ').map((code) => [code, 3])),
};
const USUAL_DECIMALS = 2;

/** Far beyond any budget, and far enough below a 64-bit integer that sums in the database cannot overflow one line. */
const LARGEST = 10n ** 17n;

export const decimalsOf = (currency: string): number => DECIMALS[currency] ?? USUAL_DECIMALS;

/** Minor units of a decimal string, or why it is none. */
export function parseAmount(text: string, currency: string): bigint | { readonly problem: string } {
  const decimals = decimalsOf(currency);
  const [, sign, whole, fraction = ''] = /^(-?)(0|[1-9][0-9]*)(?:\.([0-9]+))?$/.exec(text.slice(0, 40)) ?? [];
  if (whole === undefined || text.length > 40)
    return { problem: 'must be a decimal string such as "12.50" or "-3"' };
  if (fraction.length > decimals) {
    return {
      problem: `has ${fraction.length} decimals; ${currency} has ${decimals === 0 ? 'none' : decimals}`,
    };
  }
  const minor = BigInt(whole + fraction.padEnd(decimals, '0'));
  if (minor > LARGEST) return { problem: `is larger than ${formatAmount(LARGEST, currency)}` };
  return sign === '-' ? -minor : minor;
}

/** The decimal string of minor units, with all decimals of the currency. */
export function formatAmount(minor: bigint, currency: string): string {
  const decimals = decimalsOf(currency);
  const digits = (minor < 0n ? -minor : minor).toString().padStart(decimals + 1, '0');
  const whole = digits.slice(0, digits.length - decimals);
  const fraction = digits.slice(digits.length - decimals);
  return `${minor < 0n ? '-' : ''}${whole}${decimals === 0 ? '' : `.${fraction}`}`;
}
