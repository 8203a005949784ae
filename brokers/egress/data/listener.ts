import { createServer, type Server, type ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { bind, type Logger, traceIdOf, UnansweredRequests } from '@space/broker-kit';
import { Problem, type ProblemCode } from '../core/problem.ts';
import { plainAddress } from '../policies/policies.ts';
import type { Strangers } from '../policies/strangers.ts';
import { answerRaw } from './answers.ts';
import { ArrivingRequest } from './arriving-request.ts';
import type { ConnectionShares } from './connection-shares.ts';
import type { serveInput } from './inputs.ts';
import type { serveTunnel } from './tunnel.ts';

export interface DataListener {
  readonly server: Server<typeof ArrivingRequest>;
  /** From now on every answer ends its connection; new connections and tunnels are still accepted. */
  leave(): void;
  /** Accepts no new connections, and resolves when all requests and tunnels have ended. */
  close(): Promise<void>;
}

/** The listener for callers, which serves CONNECT and stored inputs. */
export async function listenForCallers(options: {
  readonly host: string | undefined;
  readonly port: number;
  readonly headMs: number;
  readonly shares: ConnectionShares;
  readonly strangers: Strangers;
  readonly onPipelined: () => void;
  readonly onConnect: ReturnType<typeof serveTunnel>;
  readonly onRequest: ReturnType<typeof serveInput>;
  readonly log: Logger;
}): Promise<DataListener> {
  const { log, onConnect, onRequest, shares, strangers } = options;
  const server = createHttpServer(options.headMs);
  let [leaving, draining] = [false, false];
  server.on('connection', admitOnce(shares));
  const unanswered = new UnansweredRequests(options.onPipelined);
  const serve = (request: ArrivingRequest, response: ServerResponse) => {
    const { socket } = request;
    if (!unanswered.isNext(socket)) return;
    unanswered.begins(socket, response);
    shares.begins(socket);
    response.once('close', () => shares.ended(socket));
    if (leaving) response.setHeader('connection', 'close');
    void onRequest(request, response);
  };
  // A client that waits for 100 Continue gets it when its request is admitted.
  server.on('request', serve).on('checkContinue', serve).on('checkExpectation', serve);
  server.on('connect', (request, _, head) => {
    const { socket } = request;
    if (!unanswered.isNext(socket)) return;
    if (draining) return void answerRaw(socket, new Problem('unavailable'), traceIdOf(undefined));
    shares.begins(socket);
    void onConnect(request, socket, head, () => {
      shares.ended(socket);
      server.emit('connection', socket);
    });
  });
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    const mayAnswer = isAnswerable(error, socket) && !unanswered.isAnswering(socket);
    if (mayAnswer && strangers.mayRefuse(plainAddress(socket.remoteAddress ?? '')))
      answerParserError(error, socket, log);
    else socket.destroy();
  });
  await bind(server, options);
  return {
    server,
    leave: () => {
      leaving = true;
    },
    close: () => {
      [leaving, draining] = [true, true];
      return new Promise((resolve) => {
        server.close(() => resolve());
        server.closeIdleConnections();
      });
    },
  };
}

function createHttpServer(headMs: number): DataListener['server'] {
  return createServer({
    IncomingMessage: ArrivingRequest,
    maxHeaderSize: 32 * 1024,
    headersTimeout: headMs,
    // Bodies have the limits of their requests; this limit ends bodies that nobody reads.
    requestTimeout: 60 * 60_000,
    keepAliveTimeout: 30_000,
    connectionsCheckingInterval: Math.min(1_000, headMs),
    requireHostHeader: false,
    insecureHTTPParser: false,
    noDelay: true,
  });
}

/** Admits each connection within its shares, or closes it. */
function admitOnce(shares: ConnectionShares): (socket: Socket) => void {
  const admitted = new WeakSet<Socket>();
  return (socket) => {
    // A connection that comes back after a 407 was admitted before.
    if (admitted.has(socket)) return;
    if (!shares.admit(socket)) return void socket.destroy();
    admitted.add(socket);
    // While nobody else listens, as between a CONNECT and its tunnel, a reset would end the process.
    socket.on('error', () => undefined);
  };
}

const PARSER_CODES: Readonly<Record<string, ProblemCode>> = {
  HPE_HEADER_OVERFLOW: 'header_too_large',
  ERR_HTTP_REQUEST_TIMEOUT: 'request_timeout',
};

/** Whether the caller is still connected and has sent something, so that an answer may be read. */
function isAnswerable(error: NodeJS.ErrnoException, socket: Duplex): socket is Socket {
  return error.code !== 'ECONNRESET' && socket instanceof Socket && socket.writable && socket.bytesRead > 0;
}

/** Answers what the HTTP parser refuses (two lengths, bare LF, folded headers, …) with the gateway's own code. */
function answerParserError(error: NodeJS.ErrnoException, socket: Socket, log: Logger): void {
  const problem = new Problem(PARSER_CODES[error.code ?? ''] ?? 'invalid_request');
  const traceId = traceIdOf(undefined);
  log.info({ trace_id: traceId, status: problem.status, code: problem.code, parser: error.code }, 'egress');
  answerRaw(socket, problem, traceId);
}
