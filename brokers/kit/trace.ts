import { randomFillSync } from 'node:crypto';

const TRACEPARENT = /^00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}$/;

const ID_BYTES = 16;
const pool = Buffer.alloc(256 * ID_BYTES);
let used = pool.length;

/** Random bytes are drawn for many ids at once, since a call for each costs more than the id. */
function randomId(): string {
  if (used === pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  used += ID_BYTES;
  return pool.toString('hex', used - ID_BYTES, used);
}

/**
 * The trace id, 32 hex digits of W3C trace context: the caller's if its `traceparent` is well formed, else a new one.
 */
export function traceIdOf(traceparent: string | undefined, random: () => string = randomId): string {
  if (traceparent === undefined) return random();
  const [, trace, span] = TRACEPARENT.exec(traceparent) ?? [];
  if (trace !== undefined && span !== undefined && !/^0+$/.test(trace) && !/^0+$/.test(span)) return trace;
  return random();
}
