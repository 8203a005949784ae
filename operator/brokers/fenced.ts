/** The same broker, asked nothing unless `check` lets it pass: it throws where the Lease is not held. */
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
