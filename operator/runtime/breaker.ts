import type { ApiClient } from './client.ts';
import type { Clock } from './clock.ts';
import { TransportError } from './errors.ts';

/** After this many unanswered calls in a row, for whatever objects, the server itself is at fault. */
const ENOUGH = 5;
const ASK_EVERY_MS = 500;

/**
 * While the server does not answer, calls fail at once without being sent, except for one at intervals that tests
 * whether the server is back. So retries of thousands of objects neither hinder a starting server nor delay the
 * renewals of the Lease. Watches have a backoff of their own and are not affected.
 */
export function sparingClient(client: ApiClient, clock: Clock): ApiClient {
  let unanswered = 0;
  let askAt = 0;
  return {
    async call<T>(asked: Parameters<ApiClient['call']>[0]) {
      const away = unanswered >= ENOUGH;
      if (away && clock.now() < askAt)
        throw new TransportError(
          `${asked.method} ${asked.path} was not sent: the server answers no requests`,
        );
      if (away) askAt = clock.now() + ASK_EVERY_MS;
      try {
        const answer = await client.call<T>(asked);
        unanswered = 0;
        return answer;
      } catch (error) {
        const none = error instanceof TransportError;
        unanswered = none ? unanswered + 1 : 0;
        if (none && !away && unanswered >= ENOUGH) askAt = clock.now() + ASK_EVERY_MS;
        throw error;
      }
    },
    lines: (asked) => client.lines(asked),
  };
}
