import {
  createServer,
  type IncomingMessage,
  type Server,
  type ServerResponse,
  STATUS_CODES,
} from 'node:http';
import { createServer as createTlsServer, Server as TlsServer } from 'node:https';
import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { type ErrorCode, STATUS } from '@space/contracts/errors';
import type { Secret } from '@space/contracts/secret';
import { bind } from './bind.ts';
import { boundConnections, sharesByAddress } from './connections-by-address.ts';
import { endInTurns } from './end-in-turns.ts';
import { errorBody } from './errors.ts';
import { LineBudget } from './line-budget.ts';
import type { Logger } from './log.ts';
import type { ServiceMetrics } from './metrics.ts';
import { announcesBody, headProblem } from './request-head.ts';
import { GatheredRequest } from './small-pieces.ts';
import { traceIdOf } from './trace.ts';
import { UnansweredRequests } from './unanswered-requests.ts';

/** A certificate chain and its key, in PEM. */
export interface TlsMaterial {
  readonly cert: string;
  readonly key: Secret<string>;
}

/** What a listener serves. */
export interface Served {
  readonly listener: (request: IncomingMessage, response: ServerResponse) => void;
  /** From now on every answer closes its connection. */
  drain(): void;
}

export interface Listener {
  readonly server: Server | TlsServer;
  /** Serves new connections with another certificate. */
  useTls(material: TlsMaterial): void;
  /** From now on every answer ends its connection; new connections are still accepted. */
  leave(): void;
  /** Accepts no new connections, lets running requests end, and closes. */
  close(): Promise<void>;
}

/** Limits in milliseconds and bytes. */
interface ListenLimits {
  readonly maxHeaderSize?: number;
  readonly headersTimeout?: number;
  /** From the first byte of a request to the last of its body; 0 leaves that to the edge. */
  readonly requestTimeout?: number;
  /** From the first byte of a connection to the last of its TLS handshake. */
  readonly handshakeTimeout?: number;
}

export interface ListenOptions {
  /** The listener's name in metrics. */
  readonly name: 'control' | 'data';
  /** The address to listen at; if undefined, all IPv6 and IPv4 addresses. */
  readonly host: string | undefined;
  readonly port: number;
  readonly tls?: TlsMaterial | undefined;
  readonly limits?: ListenLimits;
  /** Each connection costs about 12 KiB, whoever has opened it. */
  readonly connections: { readonly total: number; readonly perAddress: number };
  readonly log: Logger;
  readonly metrics: ServiceMetrics;
}

/** What answers to requests that the edge never sees need. */
interface Refusing extends Pick<ListenOptions, 'name' | 'log' | 'metrics'> {
  readonly lines: LineBudget;
}

const LIMITS = {
  maxHeaderSize: 8 * 1024,
  headersTimeout: 5_000,
  requestTimeout: 10_000,
  handshakeTimeout: 5_000,
  keepAliveTimeout: 30_000,
  connectionsCheckingInterval: 500,
  // Node would answer these itself, with a body of another form.
  requireHostHeader: false,
  IncomingMessage: GatheredRequest,
};

/** Milliseconds that a caller has to read its answer, or to send the rest of a body that nobody reads. */
const LINGER_MS = 2_000;

/** Listens for the edge; errors of the HTTP parser are answered with the error body of the service, too. */
export async function listen(edge: Served, options: ListenOptions): Promise<Listener> {
  const limits = { ...LIMITS, ...options.limits };
  const unanswered = new UnansweredRequests();
  const refusing: Refusing = { ...options, lines: new LineBudget(options.log) };
  const serve = wellFormed(edge.listener, refusing);
  const listener: RequestListener = (request, response) => {
    if (!unanswered.isNext(request.socket)) return;
    unanswered.begins(request.socket, response);
    serve(request, response);
  };
  const server =
    options.tls === undefined
      ? createServer(limits, listener)
      : createTlsServer({ ...limits, ...tlsOptions(options.tls) }, listener);
  server.on('checkContinue', listener);
  server.on('checkExpectation', listener);
  const end = endInTurns();
  // A TLS server reports errors of the handshake here, too.
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    if (unanswered.isAnswering(socket) || !answered(error, socket, refusing)) end(socket);
  });
  server.maxRequestsPerSocket = 0;
  const { connections, refusedConnections } = options.metrics;
  boundConnections(server, {
    total: options.connections.total,
    shares: sharesByAddress(options.connections),
    onRefused: (reason) => refusedConnections.labels(options.name, reason).inc(),
    onCount: (open) => connections.labels(options.name).set(open),
  });
  await bind(server, options);

  return {
    server,
    useTls: (material) => {
      if (server instanceof TlsServer) server.setSecureContext(tlsOptions(material));
    },
    leave: () => edge.drain(),
    close: () => {
      edge.drain();
      return new Promise((resolve) => {
        server.close(() => resolve());
        server.closeIdleConnections();
      });
    },
  };
}

type RequestListener = Served['listener'];

/**
 * Answers requests whose headers could be read in two ways, and ends the connection if a body is left that nobody
 * reads.
 */
function wellFormed(listener: RequestListener, options: Refusing): RequestListener {
  return (request, response) => {
    const problem = headProblem(request);
    if (problem !== undefined) return void refuseHead(problem, request.socket, options);
    if (announcesBody(request) && !BODIES.has(request.method ?? ''))
      response.setHeader('connection', 'close');
    response.once('finish', () => {
      // Node drains what nobody has read, so that the connection can be used again.
      if (request instanceof GatheredRequest) request.held = false;
      if (!request.complete) endSoon(request.socket, request);
    });
    listener(request, response);
  };
}

/** The methods whose body is read. */
const BODIES: ReadonlySet<string> = new Set(['POST', 'PUT']);

function tlsOptions({ cert, key }: TlsMaterial) {
  return { cert, key: key.reveal(), minVersion: 'TLSv1.3' as const };
}

/**
 * Answers requests that the parser refuses or that do not continue. All other errors end without an answer: bytes
 * written before the end of a handshake, or to a client that does not read, would keep the socket open indefinitely.
 */
function answered(error: NodeJS.ErrnoException, socket: Duplex, options: Refusing): boolean {
  const { code = '' } = error;
  const late = code === 'ERR_HTTP_REQUEST_TIMEOUT';
  // Thousands of connections may have sent nothing; they get neither an answer nor a log line.
  const begun = late && socket instanceof Socket && socket.bytesRead > 0;
  if ((begun || code.startsWith('HPE_')) && socket.writable) {
    refuseHead(code, socket, options);
    return true;
  }
  if (code.startsWith('ERR_'))
    options.metrics.refusedConnections.labels(options.name, late ? 'silent' : 'handshake').inc();
  return false;
}

function refuseHead(problem: string, socket: Duplex, { log, lines, metrics }: Refusing): void {
  const code: ErrorCode = 'invalid_request';
  const status = problem === 'HPE_HEADER_OVERFLOW' ? 431 : STATUS[code];
  const traceId = traceIdOf(undefined);
  const body = errorBody(code, traceId);
  metrics.requests.labels('none', String(status), code).observe(0);
  const who = { address: socket instanceof Socket ? socket.remoteAddress : undefined };
  if (lines.allows('info', who, 'request'))
    log.info({ trace_id: traceId, operation: 'none', status, code, parser: problem, ...who }, 'request');
  socket.end(
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\ncontent-type: application/json\r\n` +
      `content-length: ${Buffer.byteLength(body)}\r\ncache-control: no-store\r\nconnection: close\r\n\r\n${body}`,
  );
  endSoon(socket);
}

/**
 * Lets the caller read its answer, but not keep the connection by never closing its own side. A caller that has sent
 * the rest of its request keeps the connection for the next one.
 */
function endSoon(socket: Duplex, request?: IncomingMessage): void {
  const timer = setTimeout(() => socket.destroy(), LINGER_MS);
  timer.unref();
  (request ?? socket).once('close', () => clearTimeout(timer));
}
