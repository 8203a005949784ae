import type { IncomingMessage, ServerResponse } from 'node:http';
import { type Indexed, IndexedSet } from '@space/broker-kit';

/** A body that is being transferred, in either direction. */
interface Transfer {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Called when the caller moved too few bytes in a window. */
  readonly onSlow: (why: Slow) => void;
  /** Called at intervals while the transfer lasts. */
  readonly onRecheck: () => void;
  /** Whether others wait for the slot of this transfer and have fewer slots than its owner. */
  readonly isPressed?: () => boolean;
}

export interface Pace {
  /** Watches until the returned function is called. */
  watch(transfer: Transfer): () => void;
  close(): void;
}

export interface PaceOptions {
  readonly tickMs: number;
  /** Milliseconds between two rechecks whether a transfer may continue. */
  readonly recheckMs: number;
  /** A caller that moves fewer than `leastBytes` in this many milliseconds is disconnected. */
  readonly windowMs: number;
  readonly leastBytes: number;
  /** The limits while others wait; in one tick, as many transfers end as callers wait. */
  readonly pressedWindowMs: number;
  readonly pressedLeastBytes: number;
  /** Milliseconds between signs of progress to a caller that waits for long work. Not every protocol has them. */
  readonly signOfLifeMs: number;
}

/** Why a transfer was ended. */
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
  /** The same as `bytes` and `since`, for the window while others wait. */
  pressedBytes: number;
  pressedSince: number;
}

/**
 * Reads counters of sockets instead of counting chunks, so that the transfer itself costs nothing more. `waiting`
 * returns how many callers wait for a slot of a transfer.
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

  /** Whether the transfer moved too little for the window while others wait. Checked once in each window. */
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

/** Bytes that the caller's connection has received or sent so far. */
function moved({ request }: Transfer): number {
  const { bytesRead, bytesWritten, writableLength } = request.socket;
  return bytesRead + bytesWritten - writableLength;
}

/** Whether the transfer waits for the caller. A slow upstream has limits of its own. */
function waitsForCaller({ request, response }: Transfer): boolean {
  // After the answer has begun, nobody reads the rest of the request's body.
  if (response.headersSent) return response.writableNeedDrain;
  return !request.complete && request.readableLength === 0;
}
