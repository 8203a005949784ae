import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { PIECE_COST, PIECE_MS } from '@space/broker-kit';
import { Problem, type ProblemCode } from '../core/problem.ts';
import type { ArrivingRequest } from './arriving-request.ts';
import type { Passing } from './passing.ts';
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

/** How a body is passed on while it comes. */
export interface StreamFlow extends BodyFlow {
  readonly passing: Passing;
}

/** The body as a stream, or null without one; it is counted, and broken off at the limit or after a pause. */
export function bodyOf(request: ArrivingRequest, flow: StreamFlow, line: Line): Readable | null {
  return hasBody(request) ? streamed(request, flow, line) : null;
}

/** Bytes of a body that are passed on as they come. */
const AT_ONCE = 64 * 1024;

/**
 * While there are other Capsules, a long body waits for its Capsule's turns, and the caller is not read meanwhile. A segment of
 * small pieces owes the time for which it was parsed, so that no second one is parsed in the same round of the event loop.
 */
function streamed(request: ArrivingRequest, flow: StreamFlow, line: Line): Readable {
  const { limit, idleMs, onIdle, passing } = flow;
  let late: ProblemCode = 'request_timeout';
  let idle: NodeJS.Timeout | undefined;
  let wanted: (() => void) | undefined;
  let isWanted = false;
  const body = new Readable({
    read() {
      isWanted = true;
      wanted?.();
      if (idle !== undefined) return;
      idle = setTimeout(() => onIdle(new Problem(late)), idleMs);
      send().catch((error: Error) => body.destroy(error));
    },
    destroy(error, done) {
      clearTimeout(idle);
      wanted?.();
      done(error);
    },
  });
  /** Encrypting and writing a piece is part of this. */
  const push = (piece: Buffer) => {
    if (body.destroyed) return;
    isWanted = false;
    isWanted = body.push(piece) || isWanted;
  };
  async function send(): Promise<void> {
    let small = 0;
    for await (const piece of request.body()) {
      if (body.destroyed) return;
      const owedMs = (request.smallPieces - small) * PIECE_MS;
      small = request.smallPieces;
      line.bytesOut += piece.length;
      if (line.bytesOut > limit) throw new Problem('too_large');
      late = 'upstream_timeout';
      idle?.refresh();
      const isShort = line.bytesOut + small * PIECE_COST <= AT_ONCE;
      if (isShort || !passing.isShared()) push(piece);
      else await new Promise<void>((resolve) => passing.inTurn(() => resolve(push(piece)), owedMs));
      while (!isWanted && !body.destroyed)
        await new Promise<void>((resolve) => {
          wanted = resolve;
        });
      if (body.destroyed) return;
      late = 'request_timeout';
      idle?.refresh();
    }
    clearTimeout(idle);
    if (!body.destroyed) body.push(null);
  }
  return body;
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
