import type { IncomingMessage, ServerResponse } from 'node:http';
import { type ErrorCode, ServiceError, traceIdOf } from '@space/broker-kit';
import type { Tenant } from '../objects/types.ts';
import type { Slots } from './slow-callers.ts';

/** A request to the data plane. */
export interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly traceId: string;
  /** Headers of every answer. */
  readonly common: Record<string, string>;
  readonly startedAt: number;
  /** Aborted when the caller goes away, or is disconnected. */
  readonly abort: AbortController;
  /** Path and query as received, without the question mark. */
  readonly path: string;
  readonly query: string | undefined;
  /** The operation's name in the log and the metrics. */
  operation: string;
  /**
   * Whether the headers of a successful answer were sent early to show progress; the body then contains the result or
   * the error.
   */
  alive: boolean;
  code: ErrorCode | 'ok';
  error: unknown;
  tenant: Tenant | undefined;
  /** The shared slots that it holds one of each of, and whether it has to be fast for them whoever is slow. */
  readonly held: Map<Slots, { readonly whoever: boolean }>;
  /** Returns the request's slot; undefined until it has one. */
  release: (() => void) | undefined;
}

/** A protocol for objects over HTTP. */
export interface Protocol {
  /** Processes the whole request, from authentication to the last byte of the answer. */
  serve(exchange: Exchange): Promise<void>;
  /** Answers with an error. Nothing was sent before, or only the headers of a successful answer (`alive`). */
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
    held: new Map(),
    release: undefined,
  };
}

/** Headers as they came, each name once, in lower case. */
export type Received = ReadonlyMap<string, string>;

/** @throws ServiceError `invalid_request` if a header occurs twice, since two readers may use different ones */
export function receivedHeaders(rawHeaders: readonly string[]): Received {
  const headers = new Map<string, string>();
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = (rawHeaders[i] ?? '').toLowerCase();
    if (headers.has(name)) throw new ServiceError('invalid_request', 'a header twice');
    headers.set(name, rawHeaders[i + 1] ?? '');
  }
  return headers;
}

/** Writes all headers of the answer at once, which costs Node less than one after the other. */
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
