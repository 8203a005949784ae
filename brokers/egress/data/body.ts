import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { Problem, type ProblemCode } from '../core/problem.ts';
import type { ArrivingRequest } from './arriving-request.ts';
import type { Line } from './record.ts';

/** The Content-Length; 0 without one. */
export const announcedLength = (request: IncomingMessage): number =>
  Number(request.headers['content-length'] ?? 0);

const hasBody = (request: IncomingMessage): boolean =>
  request.headers['transfer-encoding'] !== undefined || announcedLength(request) > 0;

/** The limits of a body, and what happens when it is broken off. */
export interface BodyFlow {
  readonly limit: number;
  /** The longest pause between two parts, in milliseconds. */
  readonly idleMs: number;
  readonly onIdle: (problem: Problem) => void;
}

/** The body as a stream, or null without one; it is counted, and broken off at the limit or after a pause. */
export function bodyOf(request: ArrivingRequest, flow: BodyFlow, line: Line): Readable | null {
  return hasBody(request) ? Readable.from(counted(request, flow, line), { objectMode: false }) : null;
}

async function* counted(request: ArrivingRequest, flow: BodyFlow, line: Line): AsyncGenerator<Buffer> {
  let late: ProblemCode = 'request_timeout';
  const idle = setTimeout(() => flow.onIdle(new Problem(late)), flow.idleMs);
  try {
    for await (const chunk of request.body()) {
      line.bytesOut += chunk.length;
      if (line.bytesOut > flow.limit) throw new Problem('too_large');
      late = 'upstream_timeout';
      idle.refresh();
      yield chunk;
      late = 'request_timeout';
      idle.refresh();
    }
  } finally {
    clearTimeout(idle);
  }
}

/** The length of a body that is kept in memory. @throws Problem `length_required`, `too_large` */
export function wholeLength(request: IncomingMessage, limit: number): number {
  if (request.headers['transfer-encoding'] !== undefined) throw new Problem('length_required');
  const length = announcedLength(request);
  if (length > limit) throw new Problem('too_large');
  return length;
}

/** The whole body, of the announced length. @throws Problem `invalid_request`, or the signal's reason */
export async function readBody(
  request: ArrivingRequest,
  length: number,
  flow: Omit<BodyFlow, 'limit'>,
  signal: AbortSignal,
): Promise<Buffer> {
  signal.throwIfAborted();
  // The buffer is allocated once for all pieces; pages that were not written to take no memory yet.
  const whole = Buffer.allocUnsafeSlow(length);
  const { promise, reject } = Promise.withResolvers<never>();
  const idle = setTimeout(() => flow.onIdle(new Problem('request_timeout')), flow.idleMs);
  const onAbort = () => reject(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    await Promise.race([promise, copied(request, whole, () => idle.refresh())]);
    return whole;
  } finally {
    clearTimeout(idle);
    signal.removeEventListener('abort', onAbort);
  }
}

async function copied(request: ArrivingRequest, whole: Buffer, onPart: () => void): Promise<void> {
  let at = 0;
  try {
    for await (const part of request.body()) {
      at += part.copy(whole, at);
      onPart();
    }
  } catch (cause) {
    throw new Problem('invalid_request', { cause });
  }
  if (at !== whole.length) throw new Problem('invalid_request');
}
