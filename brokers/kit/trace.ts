import { randomUUID } from 'node:crypto';

const TRACEPARENT = /^00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}$/;

/** 32 hex digits of W3C trace context: the caller's when its `traceparent` is well formed, else a new one. */
export function traceIdOf(traceparent: string | undefined, random: () => string = randomUUID): string {
  const [, trace, span] = TRACEPARENT.exec(traceparent ?? '') ?? [];
  if (trace !== undefined && span !== undefined && !/^0+$/.test(trace) && !/^0+$/.test(span)) return trace;
  // Node draws the randomness of many UUIDs at once.
  return random().replaceAll('-', '');
}
