import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { type Logger, traceIdOf } from '@space/broker-kit';
import { Problem, type ProblemCode } from '../core/problem.ts';
import { answerRaw } from './answers.ts';
import type { serveInput } from './inputs.ts';
import type { DataLimits } from './limits.ts';
import type { serveTunnel } from './tunnel.ts';

export interface DataListener {
  readonly server: Server;
  /** Takes no new work, lets requests and tunnels end and returns when they have. */
  close(): Promise<void>;
}

const MAX_CONNECTIONS = 4_096;

/** The one listener for callers: CONNECT and stored inputs. */
export async function listenForCallers(options: {
  readonly host: string;
  readonly port: number;
  readonly limits: Pick<DataLimits, 'headMs' | 'connections'>;
  readonly onConnect: ReturnType<typeof serveTunnel>;
  readonly onRequest: ReturnType<typeof serveInput>;
  readonly log: Logger;
}): Promise<DataListener> {
  const { log, onConnect, onRequest } = options;
  const { headMs, connections } = options.limits;
  const server = createServer({
    maxHeaderSize: 32 * 1024,
    headersTimeout: headMs,
    // Bodies are bounded by the request's own limits; this ends those that nobody reads.
    requestTimeout: 60 * 60_000,
    keepAliveTimeout: 30_000,
    connectionsCheckingInterval: Math.min(1_000, headMs),
    requireHostHeader: false,
    insecureHTTPParser: false,
    noDelay: true,
  });
  server.maxConnections = MAX_CONNECTIONS;
  server.on('connection', shared(connections));
  let draining = false;
  const serve = (request: IncomingMessage, response: ServerResponse) => {
    if (draining) response.setHeader('connection', 'close');
    void onRequest(request, response);
  };
  // Who waits for a 100 gets it once the request is admitted.
  server.on('request', serve).on('checkContinue', serve).on('checkExpectation', serve);
  server.on('connect', (request, socket, head) => {
    if (draining) answerRaw(socket, new Problem('unavailable'), traceIdOf(undefined));
    else void onConnect(request, socket, head);
  });
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => answerParserError(error, socket, log));
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(options.port, options.host, resolve);
  });
  return {
    server,
    close: () => {
      draining = true;
      return new Promise((resolve) => {
        server.close(() => resolve());
        server.closeIdleConnections();
      });
    },
  };
}

/** Ends connections of an address that has its share of them already, so that nobody takes the others'. */
function shared(most: number): (socket: Socket) => void {
  const open = new Map<string, number>();
  return (socket) => {
    const from = socket.remoteAddress ?? '';
    const count = (open.get(from) ?? 0) + 1;
    if (count > most) return void socket.destroy();
    // Each of its requests listens for its end; they may come one behind the other.
    socket.setMaxListeners(0);
    open.set(from, count);
    socket.once('close', () => {
      const left = (open.get(from) ?? 1) - 1;
      if (left === 0) open.delete(from);
      else open.set(from, left);
    });
  };
}

const PARSER_CODES: Readonly<Record<string, ProblemCode>> = {
  HPE_HEADER_OVERFLOW: 'header_too_large',
  ERR_HTTP_REQUEST_TIMEOUT: 'request_timeout',
};

/** What the HTTP parser refuses (both lengths, bare LF, folded headers, …) is told with our own code. */
function answerParserError(error: NodeJS.ErrnoException, socket: Duplex, log: Logger): void {
  if (error.code === 'ECONNRESET' || !socket.writable) return void socket.destroy();
  const problem = new Problem(PARSER_CODES[error.code ?? ''] ?? 'invalid_request');
  const traceId = traceIdOf(undefined);
  log.info({ trace_id: traceId, status: problem.status, code: problem.code, parser: error.code }, 'egress');
  answerRaw(socket, problem, traceId);
}
