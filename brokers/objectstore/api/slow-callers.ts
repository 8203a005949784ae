import type { IncomingMessage, ServerResponse } from 'node:http';
import { type Indexed, IndexedSet, type SharedSlots } from '@space/broker-kit';

/** One of the shared slots, which a Capsule holds for a request. */
export interface HeldSlot {
  readonly slots: Slots;
  readonly key: string;
  /** Set if the request has to be fast for it whoever is slow, as for a slot of those for Capsules' own servers. */
  readonly whoever: boolean;
}

export type Slots = Pick<SharedSlots, 'waiting' | 'heldBy' | 'leastOfWaiting'>;

/** A request whose body, or whose answer's, is being transferred. */
interface Transfer {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Called when the caller moved too few bytes in a window; `held` is the slot that others wait for. */
  readonly onSlow: (why: Slow, held?: HeldSlot) => void;
  /** Called at intervals while the transfer lasts. */
  readonly onRecheck: () => void;
  /** The slots that the request holds now. */
  readonly held: () => readonly HeldSlot[];
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
  /** The limits while others wait for slots; in one tick, as many transfers with such a slot end as callers wait for one. */
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

/** Reads counters of sockets instead of counting chunks, so that the transfer itself costs nothing more. */
export function createPace(
  options: Partial<PaceOptions> = {},
  now: () => number = () => performance.now(),
): Pace {
  const { tickMs, recheckMs, windowMs, leastBytes, pressedWindowMs, pressedLeastBytes } = {
    ...DEFAULTS,
    ...options,
  };
  const watched = new IndexedSet<Watched>();

  /** Whether the transfer moved too little in the window for which others wait. Checked once in each window. */
  function isLaggard(one: Watched, bytes: number, at: number): boolean {
    if (at - one.pressedSince < pressedWindowMs) return false;
    const slow = bytes - one.pressedBytes < pressedLeastBytes;
    one.pressedBytes = bytes;
    one.pressedSince = at;
    return slow;
  }

  const timer = setInterval(() => {
    const at = now();
    const left = new Map<Slots, number>();
    /** Whether others wait for such a slot who have fewer than its owner, and for whom not as many have ended in this tick. */
    const isWanted = ({ slots, key }: HeldSlot) =>
      (left.get(slots) ?? slots.waiting) > 0 &&
      slots.heldBy(key) > (slots.leastOfWaiting ?? Number.POSITIVE_INFINITY);
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
      if (!isLaggard(one, bytes, at)) continue;
      const isCallers = waitsForCaller(one);
      const wanted = one.held().find((held) => (held.whoever || isCallers) && isWanted(held));
      if (wanted === undefined) continue;
      left.set(wanted.slots, (left.get(wanted.slots) ?? wanted.slots.waiting) - 1);
      watched.delete(one);
      one.onSlow('contended', wanted);
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
