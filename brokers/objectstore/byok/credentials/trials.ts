import { ConcurrencyLimit, RateLimit, ServiceError, type VerificationCheck } from '@space/broker-kit';
import type { Fields } from '@space/contracts/objectstore';
import type { Verify } from './verify.ts';

/** The most trials, running and waiting; each is a request that waits for a tenant's server. */
export const MOST_TRIALS = 160;
const AT_ONCE = 16;
/** Slow endpoints delay candidates of others only if several Capsules together use all slots. */
const AT_ONCE_OF_CAPSULE = 2;
/** Seconds in which every trial ends, whatever its endpoint does. */
const RETRY_AFTER = 5;

/** Tries a Capsule's candidate in its turn; throws `rate_limited` if there are too many. */
export type Trial = (capsule: string, fields: Fields) => Promise<VerificationCheck | undefined>;

interface Line {
  readonly limit: ConcurrencyLimit;
  present: number;
}

/** `rate` is the limit of one Capsule. */
export function createTrials(
  verify: Verify,
  rate: { readonly perSecond: number; readonly burst: number },
): Trial {
  const rates = new RateLimit(rate);
  const all = new ConcurrencyLimit({ active: AT_ONCE, queued: MOST_TRIALS });
  const lines = new Map<string, Line>();
  let present = 0;

  function lineOf(capsule: string): Line {
    const known = lines.get(capsule);
    if (known !== undefined) return known;
    const limit = new ConcurrencyLimit({ active: AT_ONCE_OF_CAPSULE, queued: MOST_TRIALS });
    const line = { limit, present: 0 };
    lines.set(capsule, line);
    return line;
  }

  return async (capsule, fields) => {
    const wait = present >= MOST_TRIALS ? RETRY_AFTER : rates.take(capsule);
    if (wait !== undefined)
      throw new ServiceError('rate_limited', 'too many verifications', { retryAfter: wait });
    const line = lineOf(capsule);
    present += 1;
    line.present += 1;
    try {
      const turn = await line.limit.run(() => all.run(() => verify(fields)));
      if (turn?.value === undefined) throw new Error('a queue as long as all trials was full');
      return turn.value.value;
    } finally {
      present -= 1;
      line.present -= 1;
      if (line.present === 0) lines.delete(capsule);
    }
  };
}
