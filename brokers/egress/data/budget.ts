/** Counts what Capsules hold of something that all share, such as memory or idle connections. */
export interface Budget {
  /**
   * Counts so much for a Capsule until the returned function is called. If all hold more than the total, `end` is called of what
   * was held for longest by the Capsule that holds most.
   */
  hold(capsule: string, amount: number, end: () => void): () => void;
}

interface Holding {
  readonly amount: number;
  readonly end: () => void;
}

export function createBudget(total: number, onEnded: () => void = () => undefined): Budget {
  /** Holdings are in the order in which they began. */
  const byCapsule = new Map<string, { amount: number; readonly holdings: Set<Holding> }>();
  let held = 0;

  function remove(capsule: string, holding: Holding): void {
    const own = byCapsule.get(capsule);
    if (own?.holdings.delete(holding) !== true) return;
    own.amount -= holding.amount;
    held -= holding.amount;
    if (own.holdings.size === 0) byCapsule.delete(capsule);
  }

  function endOne(): void {
    let most: string | undefined;
    for (const [capsule, { amount }] of byCapsule)
      if (most === undefined || amount > (byCapsule.get(most)?.amount ?? 0)) most = capsule;
    const [first] = byCapsule.get(most ?? '')?.holdings ?? [];
    if (most === undefined || first === undefined) return;
    remove(most, first);
    onEnded();
    first.end();
  }

  return {
    hold(capsule, amount, end) {
      const holding = { amount, end };
      const own = byCapsule.get(capsule) ?? { amount: 0, holdings: new Set<Holding>() };
      byCapsule.set(capsule, own);
      own.holdings.add(holding);
      own.amount += amount;
      held += amount;
      while (held > total) endOne();
      return () => remove(capsule, holding);
    },
  };
}
