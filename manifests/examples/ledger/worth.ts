import { decimalsOf, formatAmount } from './money.ts';
import type { Quote, Rate } from './rates.ts';

interface Holding {
  readonly currency: string;
  readonly minor: bigint;
}

/** What is held, in one currency, at the rates of one day. */
export interface Worth {
  readonly in: string;
  readonly date: string;
  readonly worth: string;
  readonly holdings: readonly {
    readonly currency: string;
    readonly balance: string;
    readonly worth: string;
  }[];
  /** Currencies that the bank has no rate for; they are not in the sum. */
  readonly unknown: readonly string[];
}

export function worthOf(holdings: readonly Holding[], quote: Quote): Worth {
  const byCurrency = new Map<string, bigint>();
  for (const { currency, minor } of holdings)
    byCurrency.set(currency, (byCurrency.get(currency) ?? 0n) + minor);
  const all = [...byCurrency].map(([currency, minor]) => ({
    currency,
    minor,
    worth: inBase(minor, currency, quote),
  }));
  const known = all.flatMap((one) => (one.worth === undefined ? [] : [{ ...one, worth: one.worth }]));
  const sum = known.reduce((total, { worth }) => total + worth, 0n);
  return {
    in: quote.base,
    date: quote.date,
    worth: formatAmount(sum, quote.base),
    holdings: known.map(({ currency, minor, worth }) => ({
      currency,
      balance: formatAmount(minor, currency),
      worth: formatAmount(worth, quote.base),
    })),
    unknown: all.filter(({ worth }) => worth === undefined).map(({ currency }) => currency),
  };
}

const ONE: Rate = { digits: 1n, decimals: 0 };

/** Minor units of the base, rounded half away from zero. */
function inBase(minor: bigint, currency: string, { base, rates }: Quote): bigint | undefined {
  const rate = currency === base ? ONE : rates.get(currency);
  if (rate === undefined) return undefined;
  const above = minor * 10n ** BigInt(decimalsOf(base) + rate.decimals);
  const below = 10n ** BigInt(decimalsOf(currency)) * rate.digits;
  const half = above < 0n ? -below : below;
  return (2n * above + half) / (2n * below);
}
