import type { IncomingMessage, ServerResponse } from 'node:http';
import { type Indexed, IndexedSet } from '@space/broker-kit';

/** A body under way, in either direction. */
interface Transfer {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** The caller moved too little for too long. */
  readonly onSlow: (why: Slow) => void;
  /** Called now and then while the transfer lasts. */
  readonly onRecheck: () => void;
  /** Whether others wait for the place that this one holds, and hold less than its owner. */
  readonly isPressed?: () => boolean;
}

export interface Pace {
  /** Watches until the returned function is called. */
  watch(transfer: Transfer): () => void;
  close(): void;
}

export interface PaceOptions {
  readonly tickMs: number;
  /** How often a transfer is asked whether it may go on. */
  readonly recheckMs: number;
  /** A caller who moves fewer than `leastBytes` in this time is let go. */
  readonly windowMs: number;
  readonly leastBytes: number;
  /** The limits while others wait; as many transfers end in a tick as callers wait. */
  readonly pressedWindowMs: number;
  readonly pressedLeastBytes: number;
  /** How often a caller who waits for a long piece of work is told that it goes on, where its protocol can say that. */
  readonly signOfLifeMs: number;
}

/** What one is let go for. */
export type Slow = 'idle' | 'contended';

export const DEFAULTS: PaceOptions = {
  tickMs: 5_000,
  recheckMs: 10_000,
  windowMs: 60_000,
  leastBytes: 64 * 1024,
  pressedWindowMs: 10_000,
  pressedLeastBytes: 640 * 1024,
  signOfLifeMs: 10_000,
};

interface Watched extends Transfer, Indexed {
  bytes: number;
  since: number;
  checkedAt: number;
  /** What `bytes` and `since` are for the plain window, for the one while others wait. */
  pressedBytes: number;
  pressedSince: number;
}

/**
 * Looks at sockets instead of counting chunks: the fast path stays free of it. `waiting` says how many wait for a place
 * that a transfer holds.
 */
export function createPace(
  options: Partial<PaceOptions> = {},
  { waiting = () => 0, now = () => performance.now() }: { waiting?: () => number; now?: () => number } = {},
): Pace {
  const { tickMs, recheckMs, windowMs, leastBytes, pressedWindowMs, pressedLeastBytes } = {
    ...DEFAULTS,
    ...options,
  };
  const watched = new IndexedSet<Watched>();

  /** Has it moved too little for the time that others wait? Asked once in each window. */
  function isLaggard(one: Watched, bytes: number, at: number): boolean {
    if (at - one.pressedSince < pressedWindowMs) return false;
    const slow = bytes - one.pressedBytes < pressedLeastBytes;
    one.pressedBytes = bytes;
    one.pressedSince = at;
    return slow && waitsForCaller(one) && one.isPressed?.() === true;
  }

  const timer = setInterval(() => {
    const at = now();
    let toEnd = waiting();
    for (const one of watched.snapshot()) {
      if (at - one.checkedAt >= recheckMs) {
        one.checkedAt = at;
        one.onRecheck();
      }
      const bytes = moved(one);
      if (bytes - one.bytes >= leastBytes || !waitsForCaller(one)) {
        one.bytes = bytes;
        one.since = at;
      } else if (at - one.since >= windowMs) {
        watched.delete(one);
        one.onSlow('idle');
        continue;
      }
      if (isLaggard(one, bytes, at) && toEnd > 0) {
        toEnd -= 1;
        watched.delete(one);
        one.onSlow('contended');
      }
    }
  }, tickMs);
  timer.unref();

  return {
    watch: (transfer) => {
      const [bytes, since] = [moved(transfer), now()];
      const one = {
        ...transfer,
        index: -1,
        bytes,
        since,
        checkedAt: since,
        pressedBytes: bytes,
        pressedSince: since,
      };
      watched.add(one);
      return () => watched.delete(one);
    },
    close: () => clearInterval(timer),
  };
}

/** Bytes that the caller's connection took or gave so far. */
function moved({ request }: Transfer): number {
  const { bytesRead, bytesWritten, writableLength } = request.socket;
  return bytesRead + bytesWritten - writableLength;
}

/** Is it the caller that everybody waits for? An upstream that is slow has limits of its own. */
function waitsForCaller({ request, response }: Transfer): boolean {
  // Once there is an answer, what is left of the request's body is read by nobody.
  if (response.headersSent) return response.writableNeedDrain;
  return !request.complete && request.readableLength === 0;
}
