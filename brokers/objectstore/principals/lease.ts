/**
 * A replica may go on for a moment with the principal that it has just found, without asking the registry again for
 * every request. Whoever ends a principal waits, after the commit and before answering, until no replica can still go on
 * with it: what was answered holds on all of them, and none has to be told.
 */

/** How long after the beginning of its look-up a finding may be used, in milliseconds. */
export const LEASE_MS = 100;

/** Clocks of replicas may differ in pace, and timers end a little early. */
const MARGIN_MS = 50;

/** Resolves when every finding from before the call has lapsed. */
export function leasesLapse(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, LEASE_MS + MARGIN_MS));
}
