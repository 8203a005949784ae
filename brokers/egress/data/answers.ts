import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import { DialError } from '@space/broker-kit';
import { Problem, problemBody } from '../core/problem.ts';

/** Converts any error to one of the gateway's own codes. */
export function problemOf(error: unknown): Problem {
  if (error instanceof Problem) return error;
  if (error instanceof DialError) {
    const code = {
      unresolved: 'name_unresolved',
      denied: 'address_denied',
      unreachable: 'upstream_failed',
      timeout: 'upstream_timeout',
    } as const;
    return new Problem(code[error.failure], { cause: error });
  }
  return new Problem('internal', { cause: error });
}

function headersOf(problem: Problem, body: string): [string, string][] {
  return [
    ['content-type', 'application/problem+json'],
    ['content-length', String(Buffer.byteLength(body))],
    ['cache-control', 'no-store'],
    ['platform-egress-error', problem.code],
    ...(problem.retryAfter === undefined
      ? []
      : ([['retry-after', String(problem.retryAfter)]] as [string, string][])),
  ];
}

/** Answers on a socket that Node's HTTP server has handed over, and ends it. */
export function answerRaw(socket: Duplex, problem: Problem, traceId: string): void {
  if (!socket.writable) return void socket.destroy();
  const body = problemBody(problem, traceId);
  const head = headersOf(problem, body).map(([name, value]) => `${name}: ${value}\r\n`);
  endWith(
    socket,
    `HTTP/1.1 ${problem.status} ${STATUS_CODES[problem.status]}\r\n${head.join('')}connection: close\r\n\r\n${body}`,
  );
}

/**
 * Answers 407 and keeps the connection, since git, Java, .NET and Chromium send their credential only after a 407, and
 * some of them only on the same connection.
 */
export function askForCredential(socket: Duplex, request: IncomingMessage, traceId: string): void {
  const problem = new Problem('credential_required');
  const body = problemBody(problem, traceId);
  const head = headersOf(problem, body).map(([name, value]) => `${name}: ${value}\r\n`);
  // In HTTP/1.0 a connection persists only if both sides say so.
  const stays = request.httpVersion === '1.1' ? '' : 'connection: keep-alive\r\n';
  socket.write(
    `HTTP/1.1 ${problem.status} ${STATUS_CODES[problem.status]}\r\n${head.join('')}` +
      `proxy-authenticate: Basic realm="space"\r\n${stays}\r\n${body}`,
  );
}

const LINGER_MS = 1_000;

/**
 * Sends a last message and ends the connection. Data that still arrives is discarded, and a peer that does not close is
 * not waited for.
 */
export function endWith(socket: Duplex, lastWord: string | Buffer): void {
  socket.end(lastWord);
  socket.resume();
  const late = setTimeout(() => socket.destroy(), LINGER_MS);
  socket.once('close', () => clearTimeout(late));
}

export function answer(
  request: IncomingMessage,
  response: ServerResponse,
  problem: Problem,
  traceId: string,
): void {
  // An answer that has begun cannot be replaced. It may be queued behind another one on its connection, so the
  // connection is destroyed.
  if (response.headersSent) return void request.socket.destroy();
  const body = problemBody(problem, traceId);
  // The rest of the request's body is not waited for.
  const close = request.complete ? {} : { connection: 'close' };
  response.writeHead(problem.status, { ...Object.fromEntries(headersOf(problem, body)), ...close });
  response.end(body);
  // Its request counts no more, and a connection whose answer cannot leave is not idle: it would be kept for ever.
  const late = setTimeout(() => request.socket.destroy(), LINGER_MS);
  response.once('close', () => clearTimeout(late));
}
