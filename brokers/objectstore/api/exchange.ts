import type { IncomingMessage, ServerResponse } from 'node:http';
import { type ErrorCode, ServiceError, traceIdOf } from '@space/broker-kit';
import type { Tenant } from '../objects/types.ts';

/** One request on its way through the data plane. */
export interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly traceId: string;
  /** Headers of every answer. */
  readonly common: Record<string, string>;
  readonly startedAt: number;
  /** Aborted when the caller goes away, or has to. */
  readonly abort: AbortController;
  /** The path and the query as they came, without the question mark. */
  readonly path: string;
  readonly query: string | undefined;
  /** The operation's name in the log and the metrics. */
  operation: string;
  /** Was the head of a good answer sent as a sign of life? Then what follows says how it went. */
  alive: boolean;
  code: ErrorCode | 'ok';
  error: unknown;
  tenant: Tenant | undefined;
  /** Gives back the slot that the request has among all; undefined until it has one. */
  release: (() => void) | undefined;
}

/** A way to speak of objects over HTTP. */
export interface Protocol {
  /** Does the whole request, from authentication to the last byte of the answer. */
  serve(exchange: Exchange): Promise<void>;
  /** Answers an error; nothing was sent yet, or at most the head of a good answer as a sign of life (`alive`). */
  refuse(exchange: Exchange, error: ServiceError): void;
}

export function beginExchange(request: IncomingMessage, response: ServerResponse): Exchange {
  const url = request.url ?? '';
  const mark = url.indexOf('?');
  const traceId = traceIdOf(request.headers.traceparent?.toString());
  return {
    request,
    response,
    traceId,
    common: { 'cache-control': 'no-store', 'x-content-type-options': 'nosniff', 'trace-id': traceId },
    startedAt: performance.now(),
    abort: new AbortController(),
    path: mark === -1 ? url : url.slice(0, mark),
    query: mark === -1 ? undefined : url.slice(mark + 1),
    operation: 'none',
    alive: false,
    code: 'ok',
    error: undefined,
    tenant: undefined,
    release: undefined,
  };
}

/** Headers as they came, each name once, in lower case. */
export type Received = ReadonlyMap<string, string>;

/** Throws `invalid_request` when a header came twice: two readers might believe different ones. */
export function receivedHeaders(rawHeaders: readonly string[]): Received {
  const headers = new Map<string, string>();
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = (rawHeaders[i] ?? '').toLowerCase();
    if (headers.has(name)) throw new ServiceError('invalid_request', 'a header twice');
    headers.set(name, rawHeaders[i + 1] ?? '');
  }
  return headers;
}

/** Writes the head of the answer in one go: header after header costs Node more. */
export function writeHead(
  { response, common }: Exchange,
  status: number,
  headers: Readonly<Record<string, string | number>>,
): ServerResponse {
  return response.writeHead(status, { ...common, ...headers });
}

export function writeJson(exchange: Exchange, status: number, body: string): void {
  const about = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
  writeHead(exchange, status, about).end(body);
}

/** A whole number in decimal, without sign and leading zeros. */
export function numberOf(text: string | undefined, fallback: number, least: number, most: number): number {
  if (text === undefined) return fallback;
  const value = /^(?:0|[1-9][0-9]{0,8})$/.test(text) ? Number(text) : Number.NaN;
  if (!(value >= least && value <= most)) throw new ServiceError('invalid_request', 'number');
  return value;
}
