const FACTORS: Readonly<Record<string, number>> = {
  m: 1e-3,
  '': 1,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
};

/** The value of a Kubernetes quantity; undefined if a quota cannot have it. */
export function amountOf(quantity: unknown): number | undefined {
  const [, digits, suffix = ''] =
    /^([0-9]+(?:\.[0-9]+)?)(m|k|M|G|T|Ki|Mi|Gi|Ti)?$/.exec(String(quantity)) ?? [];
  const factor = FACTORS[suffix];
  return digits === undefined || factor === undefined ? undefined : Number(digits) * factor;
}
