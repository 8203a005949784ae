import type { ApiClient } from './client.ts';
import type { Clock } from './clock.ts';
import { TransportError } from './errors.ts';

/** So many calls in a row without an answer, of whatever object: it is the server, and not one of them. */
const ENOUGH = 5;
const ASK_EVERY_MS = 500;

/**
 * While the server answers nobody, calls fail at once and are not sent, but for one now and then that finds out whether
 * it is back. Thousands of objects may want to be tried again: they do not keep a server from starting, nor this process
 * from its Lease. Watches have waits of their own and pass.
 */
export function sparingClient(client: ApiClient, clock: Clock): ApiClient {
  let unanswered = 0;
  let askAt = 0;
  return {
    async call<T>(asked: Parameters<ApiClient['call']>[0]) {
      const away = unanswered >= ENOUGH;
      if (away && clock.now() < askAt)
        throw new TransportError(`${asked.method} ${asked.path} was not sent: the server answers nobody`);
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
