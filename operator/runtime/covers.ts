/** Keys whose values are Kubernetes quantities, which the server rewrites ("1000m" becomes "1"). */
const QUANTITY_MAPS = new Set([
  'hard',
  'limits',
  'requests',
  'default',
  'defaultRequest',
  'max',
  'min',
  'maxLimitRequestRatio',
]);
const QUANTITY_FIELDS = new Set(['sizeLimit']);

/**
 * Whether `live` has everything that `desired` has. Fields that `desired` does not name are the server's and are
 * ignored; lists must have the same length; an empty value equals an absent one, as the server drops empty values.
 * `false` and 0 must be present, since the default of the field may be another.
 */
export function covers(desired: unknown, live: unknown): boolean {
  return compare(desired, live, false);
}

function compare(desired: unknown, live: unknown, quantities: boolean): boolean {
  if (isEmpty(desired)) return isEmpty(live);
  if (Array.isArray(desired)) {
    return (
      Array.isArray(live) &&
      live.length === desired.length &&
      desired.every((item, i) => compare(item, live[i], quantities))
    );
  }
  if (typeof desired === 'object' && desired !== null) {
    if (typeof live !== 'object' || live === null || Array.isArray(live))
      return isAllEmpty(desired) && isEmpty(live);
    return Object.entries(desired).every(([key, value]) =>
      compare(
        value,
        (live as Record<string, unknown>)[key],
        quantities || QUANTITY_MAPS.has(key) || QUANTITY_FIELDS.has(key),
      ),
    );
  }
  if (desired === live) return true;
  if (typeof desired !== 'string' || typeof live !== 'string') return false;
  // The server replaces lone surrogates.
  return desired.toWellFormed() === live || (quantities && sameQuantity(desired, live));
}

function isEmpty(value: unknown): boolean {
  if (value === undefined || value === null || value === '') return true;
  if (Array.isArray(value)) return value.length === 0;
  return typeof value === 'object' && Object.keys(value).length === 0;
}

function isAllEmpty(value: object): boolean {
  return Object.values(value).every(
    (item) => isEmpty(item) || (typeof item === 'object' && isAllEmpty(item)),
  );
}

const EXPONENTS: Readonly<Record<string, number>> = {
  n: -9,
  u: -6,
  m: -3,
  '': 0,
  k: 3,
  M: 6,
  G: 9,
  T: 12,
  P: 15,
  E: 18,
};
const POWERS: Readonly<Record<string, bigint>> = { Ki: 10n, Mi: 20n, Gi: 30n, Ti: 40n, Pi: 50n, Ei: 60n };

function sameQuantity(a: string, b: string): boolean {
  const [left, right] = [nanos(a), nanos(b)];
  return left !== undefined && left === right;
}

/** A quantity in units of 10⁻⁹, rounded up as the server does; `undefined` if the text is none. */
function nanos(text: string): bigint | undefined {
  const match = /^([+-]?)(\d*)\.?(\d*)(?:([eE])([+-]?\d{1,2})|([KMGTPE]i|[numkMGTPE]?))$/.exec(text);
  if (!match) return undefined;
  const [, sign = '', whole = '', fraction = '', isExponent, exponent = '0', suffix = ''] = match;
  if (whole === '' && fraction === '') return undefined;
  const digits = BigInt(whole + fraction);
  const binary = POWERS[suffix];
  const scaled = binary === undefined ? digits : digits << binary;
  const shift = 9 - fraction.length + (isExponent ? Number(exponent) : (EXPONENTS[suffix] ?? 0));
  const value = shift >= 0 ? scaled * 10n ** BigInt(shift) : divideUp(scaled, 10n ** BigInt(-shift));
  return sign === '-' ? -value : value;
}

function divideUp(value: bigint, by: bigint): bigint {
  return (value + by - 1n) / by;
}
