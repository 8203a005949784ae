const QUANTITY = /^([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][+-]?[0-9]{1,3})?$/;

const DECIMAL = ['', 'k', 'M', 'G', 'T', 'P', 'E'];
const BINARY = ['', 'Ki', 'Mi', 'Gi', 'Ti', 'Pi', 'Ei'];

/**
 * Bytes of a Kubernetes quantity, rounded up, between 1 and the largest exact integer; undefined without a quantity.
 * Admission has refused anything that is not a quantity.
 */
export function bytesOf(quantity: string | number | undefined): number | undefined {
  if (quantity === undefined) return undefined;
  const [, amount, suffix = ''] = QUANTITY.exec(String(quantity)) ?? [];
  if (amount === undefined) return undefined;
  const bytes = Math.ceil(Number(amount) * factorOf(suffix));
  return Math.min(Math.max(bytes, 1), Number.MAX_SAFE_INTEGER);
}

function factorOf(suffix: string): number {
  if (suffix === 'm') return 1 / 1_000;
  if (/^[eE][+-]?[0-9]/.test(suffix)) return 10 ** Number(suffix.slice(1));
  const decimal = DECIMAL.indexOf(suffix);
  return decimal >= 0 ? 1_000 ** decimal : 1_024 ** BINARY.indexOf(suffix);
}
