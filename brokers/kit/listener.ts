import { createServer, type Server, STATUS_CODES } from 'node:http';
import { createServer as createTlsServer, Server as TlsServer } from 'node:https';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Edge } from './edge.ts';
import { type ErrorCode, errorBody, STATUS } from './errors.ts';
import type { Logger } from './log.ts';
import type { Secret } from './secret.ts';
import { traceIdOf } from './trace.ts';

/** A certificate chain and its key, PEM. */
export interface TlsMaterial {
  readonly cert: string;
  readonly key: Secret<string>;
}

export interface Listener {
  readonly server: Server | TlsServer;
  /** Serves new connections with another certificate. */
  useTls(material: TlsMaterial): void;
  /** Takes no new work, lets what runs end, and closes. */
  close(): Promise<void>;
}

/** Milliseconds and bytes. */
export interface ListenLimits {
  readonly maxHeaderSize?: number;
  readonly headersTimeout?: number;
  /** From the first byte of a request to the last of its body; 0 leaves that to the edge. */
  readonly requestTimeout?: number;
  /** More connections than these are closed unheard: each costs some 12 KiB, whoever is at its other end. */
  readonly maxConnections?: number;
}

const LIMITS = {
  maxHeaderSize: 8 * 1024,
  headersTimeout: 5_000,
  requestTimeout: 10_000,
  keepAliveTimeout: 30_000,
  connectionsCheckingInterval: 500,
  maxConnections: 4_000,
  // Node would answer these itself, with a body that is not ours.
  requireHostHeader: false,
};

/** Listens for the edge; what the HTTP parser finds is answered with our error body too. */
export async function listen(
  edge: Pick<Edge<never>, 'listener' | 'drain'>,
  options: {
    host: string;
    port: number;
    tls?: TlsMaterial | undefined;
    limits?: ListenLimits;
    log: Logger;
  },
): Promise<Listener> {
  const limits = { ...LIMITS, ...options.limits };
  const listener = oneAtATime(edge.listener);
  const server =
    options.tls === undefined
      ? createServer(limits, listener)
      : createTlsServer({ ...limits, ...tlsOptions(options.tls) }, listener);
  server.on('checkContinue', listener);
  server.on('checkExpectation', listener);
  server.on('clientError', (error: NodeJS.ErrnoException, socket) =>
    answerParserError(error, socket, options.log),
  );
  server.maxRequestsPerSocket = 0;
  server.maxConnections = limits.maxConnections;
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(options.port, options.host, resolve);
  });

  return {
    server,
    useTls: (material) => {
      if (server instanceof TlsServer) server.setSecureContext(tlsOptions(material));
    },
    close: () => {
      edge.drain();
      return new Promise((resolve) => {
        server.close(() => resolve());
        server.closeIdleConnections();
      });
    },
  };
}

/**
 * Ends a connection on which a request comes before the one before it was answered. No client of ours does that, and
 * one segment would be a thousand requests to hold, from somebody who has shown no credential yet.
 */
function oneAtATime(listener: Edge<never>['listener']): Edge<never>['listener'] {
  const busy = new WeakSet<Socket>();
  return (request, response) => {
    const { socket } = request;
    if (busy.has(socket)) return void socket.destroy();
    busy.add(socket);
    response.once('close', () => socket.destroyed || busy.delete(socket));
    listener(request, response);
  };
}

function tlsOptions({ cert, key }: TlsMaterial) {
  return { cert, key: key.reveal(), minVersion: 'TLSv1.3' as const };
}

function answerParserError(error: NodeJS.ErrnoException, socket: Duplex, log: Logger): void {
  if (error.code === 'ECONNRESET' || !socket.writable) return void socket.destroy();
  const code: ErrorCode = 'invalid_request';
  const status = error.code === 'HPE_HEADER_OVERFLOW' ? 431 : STATUS[code];
  const traceId = traceIdOf(undefined);
  const body = errorBody(code, traceId);
  log.info({ trace_id: traceId, operation: 'none', status, code, parser: error.code }, 'request');
  socket.end(
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\ncontent-type: application/json\r\n` +
      `content-length: ${Buffer.byteLength(body)}\r\ncache-control: no-store\r\nconnection: close\r\n\r\n${body}`,
  );
}
