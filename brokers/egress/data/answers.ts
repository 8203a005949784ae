import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import { DialError } from '@space/broker-kit';
import { Problem, problemBody } from '../core/problem.ts';

/** Whatever went wrong, as one of the gateway's own codes. */
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
 * Tells a client of a tunnel to come again with its credential, as git, Java, .NET and Chromium wait to be told. The
 * connection stays, since some of them send it on no other.
 */
export function askForCredential(socket: Duplex, request: IncomingMessage, traceId: string): void {
  const problem = new Problem('credential_required');
  const body = problemBody(problem, traceId);
  const head = headersOf(problem, body).map(([name, value]) => `${name}: ${value}\r\n`);
  // HTTP/1.0 has no connections that stay, unless both sides say so.
  const stays = request.httpVersion === '1.1' ? '' : 'connection: keep-alive\r\n';
  socket.write(
    `HTTP/1.1 ${problem.status} ${STATUS_CODES[problem.status]}\r\n${head.join('')}` +
      `proxy-authenticate: Basic realm="space"\r\n${stays}\r\n${body}`,
  );
}

const LINGER_MS = 1_000;

/** Says a last word. What still comes is thrown away, and a peer that does not close is not waited for. */
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
  // An answer that has begun cannot become another one. It may wait behind another of its connection, and then would not
  // hear that it is to end.
  if (response.headersSent) return void request.socket.destroy();
  const body = problemBody(problem, traceId);
  // What is left of the request's body is not waited for.
  const close = request.complete ? {} : { connection: 'close' };
  response.writeHead(problem.status, { ...Object.fromEntries(headersOf(problem, body)), ...close });
  response.end(body);
}
