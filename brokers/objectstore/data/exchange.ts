import type { IncomingMessage, ServerResponse } from 'node:http';
import { type ErrorCode, type ServiceError, traceIdOf } from '@space/broker-kit';
import type { Tenant } from './tenants.ts';

/** One request on its way through the data plane. */
export interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly traceId: string;
  readonly startedAt: number;
  /** Aborted when the caller goes away, or has to. */
  readonly abort: AbortController;
  /** The path and the query as they came, without the question mark. */
  readonly path: string;
  readonly query: string | undefined;
  /** For the log line and the metrics. */
  operation: string;
  code: ErrorCode | 'ok';
  error: unknown;
  tenant: Tenant | undefined;
  /** A body that is bigger than an answer's worth of waiting is under way. */
  release: (() => void) | undefined;
}

/** A way to speak of objects over HTTP. */
export interface Protocol {
  /** Does the whole request, from authentication to the last byte of the answer. */
  serve(exchange: Exchange): Promise<void>;
  /** Answers an error; nothing was sent yet. */
  refuse(exchange: Exchange, error: ServiceError): void;
}

export function beginExchange(request: IncomingMessage, response: ServerResponse): Exchange {
  const url = request.url ?? '';
  const mark = url.indexOf('?');
  return {
    request,
    response,
    traceId: traceIdOf(request.headers.traceparent?.toString()),
    startedAt: performance.now(),
    abort: new AbortController(),
    path: mark === -1 ? url : url.slice(0, mark),
    query: mark === -1 ? undefined : url.slice(mark + 1),
    operation: 'none',
    code: 'ok',
    error: undefined,
    tenant: undefined,
    release: undefined,
  };
}
