import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { Problem, type ProblemCode } from '../core/problem.ts';
import type { Line } from './record.ts';

/** What Content-Length promises, 0 without one. */
export const announcedLength = (request: IncomingMessage): number =>
  Number(request.headers['content-length'] ?? 0);

const hasBody = (request: IncomingMessage): boolean =>
  request.headers['transfer-encoding'] !== undefined || announcedLength(request) > 0;

/** How much of a body is taken, and what becomes of one that does not go on. */
export interface BodyFlow {
  readonly limit: number;
  /** Longest pause between two parts. */
  readonly idleMs: number;
  readonly onIdle: (problem: Problem) => void;
}

/** The body as it flows, or null; counted, and broken off at the limit or when it stands still. */
export function bodyOf(request: IncomingMessage, flow: BodyFlow, line: Line): Readable | null {
  return hasBody(request) ? Readable.from(counted(request, flow, line), { objectMode: false }) : null;
}

async function* counted(request: IncomingMessage, flow: BodyFlow, line: Line): AsyncGenerator<Buffer> {
  let late: ProblemCode = 'request_timeout';
  const idle = setTimeout(() => flow.onIdle(new Problem(late)), flow.idleMs);
  try {
    // The caller is still to be told why its body was not taken.
    for await (const chunk of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
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

/** How long a body is that is to be held whole. @throws Problem `length_required`, `too_large` */
export function wholeLength(request: IncomingMessage, limit: number): number {
  if (request.headers['transfer-encoding'] !== undefined) throw new Problem('length_required');
  const length = announcedLength(request);
  if (length > limit) throw new Problem('too_large');
  return length;
}

/** The whole body, of the length that it announced. @throws Problem `invalid_request`, or the signal's reason */
export function readBody(
  request: IncomingMessage,
  length: number,
  flow: Omit<BodyFlow, 'limit'>,
  signal: AbortSignal,
): Promise<Buffer> {
  signal.throwIfAborted();
  // One piece of memory: a body that comes byte by byte would else cost some hundred bytes for each of its own.
  const body = Buffer.allocUnsafe(length);
  let filled = 0;
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  const idle = setTimeout(() => flow.onIdle(new Problem('request_timeout')), flow.idleMs);
  const onData = (chunk: Buffer) => {
    filled += chunk.copy(body, filled);
    idle.refresh();
  };
  const onEnd = () => (filled === length ? resolve(body) : onClose());
  const onClose = () => reject(new Problem('invalid_request'));
  const onAbort = () => reject(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  request.on('data', onData).on('end', onEnd).on('close', onClose);
  return promise.finally(() => {
    clearTimeout(idle);
    signal.removeEventListener('abort', onAbort);
    request.off('data', onData).off('end', onEnd).off('close', onClose);
  });
}
