/** Wraps a broker so that each call first runs `check`, which throws if this process does not hold the Lease. */
export function fenced<Broker extends object>(broker: Broker, check: () => void): Broker {
  const guarded = Object.entries(broker).map(([operation, call]) => [
    operation,
    async (...args: unknown[]) => {
      check();
      return call.apply(broker, args);
    },
  ]);
  return Object.fromEntries(guarded) as Broker;
}
