import type { IncomingMessage, ServerResponse } from 'node:http';
import { LineBudget, type Logger, ServiceError, type ServiceMetrics } from '@space/broker-kit';
import { toServiceError as ofRegistry } from '@space/broker-kit/postgres';
import { toServiceError } from '../upstream/errors.ts';
import type { OpenAdmission } from './admission.ts';
import { beginExchange, type Exchange, type Protocol } from './exchange.ts';

export interface DataListener {
  readonly listener: (request: IncomingMessage, response: ServerResponse) => void;
  /** From now on every answer closes its connection. */
  drain(): void;
  close(): void;
}

export interface ListenerOptions {
  readonly json: Protocol;
  readonly s3: Protocol;
  readonly admission: Pick<OpenAdmission, 'afterRefusals' | 'close'>;
  readonly log: Logger;
  readonly metrics: ServiceMetrics;
}

/** Milliseconds that the caller of a refused request may continue to send before the connection is closed. */
const LINGER_MS = 2_000;

/** Routes every request of the data listener to its protocol, and logs each within the share of its caller. */
export function createDataListener({ json, s3, admission, log, metrics }: ListenerOptions): DataListener {
  const lines = new LineBudget(log);
  let draining = false;

  function listener(request: IncomingMessage, response: ServerResponse): void {
    const exchange = beginExchange(request, response);
    const protocol = exchange.path.startsWith('/v1/') || exchange.path === '/healthz' ? json : s3;
    if (draining) exchange.common['connection'] = 'close';
    // A copy continues after its caller has gone away, so the slot is freed when both have ended.
    let under = 2;
    const over = () => {
      under -= 1;
      if (under === 0) exchange.release?.();
    };
    response.once('close', () => {
      if (!response.writableFinished) exchange.abort.abort();
      over();
      record(exchange);
    });
    admitted(exchange, protocol)
      .catch((error: unknown) => fail(exchange, protocol, error))
      .finally(over);
  }

  /** A wrong credential costs a look-up until the budget of its address is used up, and none after that. */
  async function admitted(exchange: Exchange, protocol: Protocol): Promise<void> {
    const spent =
      exchange.path === '/healthz'
        ? undefined
        : admission.afterRefusals(exchange.request.socket.remoteAddress ?? '');
    if (spent !== undefined)
      throw new ServiceError('rate_limited', 'too many refusals', { retryAfter: spent });
    await protocol.serve(exchange);
  }

  function record(exchange: Exchange): void {
    const { request, response, operation, code, tenant, error } = exchange;
    const seconds = (performance.now() - exchange.startedAt) / 1000;
    metrics.requests.labels(operation, String(response.statusCode), code).observe(seconds);
    const who =
      tenant === undefined
        ? { address: request.socket.remoteAddress }
        : { capsule: tenant.capsule, app: tenant.app };
    const level = error === undefined ? 'info' : 'error';
    if (!lines.allows(level, who, 'request')) return;
    const fields = {
      trace_id: exchange.traceId,
      operation,
      status: response.statusCode,
      code,
      ms: Math.round(seconds * 10_000) / 10,
      ...(response.writableFinished ? {} : { cut_short: true }),
      ...who,
      ...(error === undefined ? {} : { err: error }),
    };
    log[level](fields, 'request');
  }

  return {
    listener,
    drain: () => {
      draining = true;
    },
    close: () => admission.close(),
  };
}

function fail(exchange: Exchange, protocol: Protocol, thrown: unknown): void {
  const { request, response, abort } = exchange;
  // The error that aborted the work is the reason, not the AbortError.
  const reason =
    abort.signal.aborted && abort.signal.reason instanceof ServiceError ? abort.signal.reason : thrown;
  const gone = abort.signal.aborted && !(abort.signal.reason instanceof ServiceError);
  const error = gone
    ? new ServiceError('invalid_request', 'caller gone', { cause: thrown })
    : toServiceError(ofRegistry(reason));
  exchange.code = error.code;
  exchange.error = error.isFault ? error : undefined;
  if (exchange.alive && !response.destroyed) return void protocol.refuse(exchange, error);
  if (response.headersSent || response.destroyed) return void response.destroy();
  if (error.retryAfter !== undefined) exchange.common['retry-after'] = String(error.retryAfter);
  // Nobody reads the body any more.
  abort.abort(error);
  if (!request.complete) linger(request);
  protocol.refuse(exchange, error);
}

/** Continues to read for a moment, so that the caller can read the answer before the connection is closed. */
function linger(request: IncomingMessage): void {
  const { socket } = request;
  const timer = setTimeout(() => {
    if (!request.complete) socket.destroy();
  }, LINGER_MS);
  timer.unref();
  request.once('close', () => clearTimeout(timer));
  request.on('error', () => undefined);
  request.resume();
}
