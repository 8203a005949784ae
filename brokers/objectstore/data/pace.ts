import type { IncomingMessage, ServerResponse } from 'node:http';
import { Bag, type Bagged } from '@space/broker-kit';

/** A body under way, in either direction. */
interface Transfer {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** The caller moved too little for too long. */
  readonly onSlow: () => void;
  /** Called now and then while the transfer lasts. */
  readonly onRecheck: () => void;
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
}

const DEFAULTS: PaceOptions = {
  tickMs: 5_000,
  recheckMs: 10_000,
  windowMs: 60_000,
  leastBytes: 64 * 1024,
};

interface Watched extends Transfer, Bagged {
  bytes: number;
  since: number;
  checkedAt: number;
}

/** Looks at sockets instead of counting chunks: the fast path stays free of it. */
export function createPace(options: Partial<PaceOptions> = {}, now = () => performance.now()): Pace {
  const { tickMs, recheckMs, windowMs, leastBytes } = { ...DEFAULTS, ...options };
  const watched = new Bag<Watched>();

  const timer = setInterval(() => {
    const at = now();
    for (const one of watched.all()) {
      if (at - one.checkedAt >= recheckMs) {
        one.checkedAt = at;
        one.onRecheck();
      }
      const bytes = moved(one);
      if (bytes - one.bytes >= leastBytes || !waitsForCaller(one)) {
        one.bytes = bytes;
        one.since = at;
      } else if (at - one.since >= windowMs) {
        watched.remove(one);
        one.onSlow();
      }
    }
  }, tickMs);
  timer.unref();

  return {
    watch: (transfer) => {
      const one = { ...transfer, at: -1, bytes: moved(transfer), since: now(), checkedAt: now() };
      watched.add(one);
      return () => watched.remove(one);
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
  if (!request.complete) return request.readableLength === 0;
  return response.headersSent && response.writableNeedDrain;
}
