import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Audience } from '@space/contracts';
import type { ErrorCode } from '@space/contracts/errors';
import { checkBodyHead, readJsonObject } from './body.ts';
import { errorBody, refusal, ServiceError } from './errors.ts';
import type { RateLimit } from './limits.ts';
import type { Logger } from './log.ts';
import type { ServiceMetrics } from './metrics.ts';
import type { Secret } from './secret.ts';
import { bearerToken } from './tokens.ts';
import { traceIdOf } from './trace.ts';

/** A route as the edge sees it: who may call it; what it does is the service's own business. */
export interface EdgeRoute<Caller> {
  readonly method: 'GET' | 'POST';
  readonly path: string;
  readonly operation: string;
  /** Asked all the time by machines: an answer that is no error is logged at debug only. */
  readonly quiet?: boolean;
  /**
   * Present on every route that needs a credential. Called exactly once a request, with `undefined` for a missing
   * or malformed credential, and must do the same work for every credential that it turns away.
   */
  readonly authority?: {
    readonly audience: Audience;
    readonly authenticate: (token: Secret<string> | undefined) => Promise<Caller | undefined>;
  };
}

/** One request on its way through a service. */
export interface Exchange<Caller> {
  readonly traceId: string;
  readonly operation: string;
  /** Known on routes with an authority. */
  readonly caller: Caller | undefined;
  /** The parsed object of a POST. */
  readonly body: Readonly<Record<string, unknown>>;
  /** Fields that the service adds to the one log line; never a secret. */
  readonly notes: Record<string, unknown>;
}

export interface EdgeOptions<Caller> {
  readonly routes: readonly EdgeRoute<Caller>[];
  readonly bodyLimit: number;
  /** What a caller is counted under; `undefined` is not limited. */
  readonly callerKey: (caller: Caller) => string | undefined;
  readonly callerLimit: RateLimit;
  readonly failureLimit: RateLimit;
  readonly log: Logger;
  readonly metrics: ServiceMetrics;
  /** Where admitted requests go: the express application. */
  readonly next: (request: IncomingMessage, response: ServerResponse) => void;
}

export interface Edge<Caller> {
  readonly listener: (request: IncomingMessage, response: ServerResponse) => void;
  /** The exchange of a request that the edge has admitted. */
  exchangeOf(request: IncomingMessage): Exchange<Caller>;
  /** Ends the request with an error answer, and logs what really happened. */
  fail(request: IncomingMessage, response: ServerResponse, error: unknown): void;
  /** From now on every answer closes its connection. */
  drain(): void;
}

/** What the log line of a request is made from. */
interface Line {
  readonly traceId: string;
  readonly startedAt: number;
  operation: string;
  quiet: boolean;
  code: ErrorCode | 'ok';
  error: unknown;
  exchange?: { readonly notes: Record<string, unknown> };
}

/**
 * Everything that happens to a request before express sees it, in this order: path, method, credential, rate,
 * head of the body, body. A caller without a credential so learns nothing but the list of routes.
 */
export function createEdge<Caller>(options: EdgeOptions<Caller>): Edge<Caller> {
  const exchanges = new WeakMap<IncomingMessage, Exchange<Caller>>();
  const lines = new WeakMap<IncomingMessage, Line>();
  let draining = false;

  async function admit(request: IncomingMessage, response: ServerResponse, line: Line): Promise<void> {
    const [path = '', query] = (request.url ?? '').split('?', 2);
    const candidates = options.routes.filter((route) => route.path === path);
    if (candidates.length === 0) throw new ServiceError('not_found', 'no such route');
    const route = candidates.find(({ method }) => method === request.method);
    if (route === undefined) {
      response.setHeader('allow', candidates.map(({ method }) => method).join(', '));
      throw new ServiceError('method_not_allowed', 'no such method');
    }
    line.operation = route.operation;
    line.quiet = route.quiet === true;
    const caller = route.authority && (await authenticate(request, route.authority));
    if (route.method === 'POST' && query !== undefined)
      throw new ServiceError('invalid_request', 'query on a POST');
    const body = route.method === 'POST' ? await readBody(request, response) : {};
    const exchange = { traceId: line.traceId, operation: route.operation, caller, body, notes: {} };
    line.exchange = exchange;
    exchanges.set(request, exchange);
    options.next(request, response);
  }

  async function authenticate(
    request: IncomingMessage,
    authority: NonNullable<EdgeRoute<Caller>['authority']>,
  ): Promise<Caller> {
    const address = request.socket.remoteAddress ?? '';
    // Whoever guesses costs a look-up each time, until its budget is spent: then it costs none.
    const spent = options.failureLimit.wait(address);
    if (spent !== undefined)
      throw new ServiceError('rate_limited', 'too many refusals', { retryAfter: spent });
    const caller = await authority.authenticate(bearerToken(request.rawHeaders, authority.audience));
    const key = caller === undefined ? undefined : options.callerKey(caller);
    const wait =
      caller === undefined ? options.failureLimit.take(address) : key && options.callerLimit.take(key);
    if (typeof wait === 'number')
      throw new ServiceError('rate_limited', 'too many requests', { retryAfter: wait });
    if (caller === undefined) throw refusal();
    return caller;
  }

  function readBody(request: IncomingMessage, response: ServerResponse) {
    checkBodyHead(request, options.bodyLimit);
    if (request.headers.expect?.toLowerCase() === '100-continue') response.writeContinue();
    return readJsonObject(request, options.bodyLimit);
  }

  function fail(request: IncomingMessage, response: ServerResponse, error: unknown): void {
    const line = lines.get(request);
    const known =
      error instanceof ServiceError ? error : new ServiceError('internal', 'unexpected', { cause: error });
    if (line !== undefined) {
      line.code = known.code;
      line.error = known.isFault ? known : undefined;
    }
    if (response.headersSent) return void response.destroy();
    if (known.retryAfter !== undefined) response.setHeader('retry-after', String(known.retryAfter));
    // A body that nobody will read: do not wait for it, whatever it claims to be.
    if (!request.complete && hasLargeBody(request, options.bodyLimit))
      response.setHeader('connection', 'close');
    sendJson(response, known.status, errorBody(known.code, line?.traceId ?? '', known.check));
  }

  function listener(request: IncomingMessage, response: ServerResponse): void {
    const line: Line = {
      traceId: traceIdOf(request.headers.traceparent?.toString()),
      startedAt: performance.now(),
      operation: 'none',
      quiet: false,
      code: 'ok',
      error: undefined,
    };
    lines.set(request, line);
    response.setHeader('cache-control', 'no-store');
    response.setHeader('x-content-type-options', 'nosniff');
    if (draining) response.setHeader('connection', 'close');
    response.once('close', () => record(line, response));
    admit(request, response, line).catch((error: unknown) => fail(request, response, error));
  }

  function record(line: Line, response: ServerResponse): void {
    const seconds = (performance.now() - line.startedAt) / 1000;
    const status = response.statusCode;
    options.metrics.requests.labels(line.operation, String(status), line.code).observe(seconds);
    const fields = {
      trace_id: line.traceId,
      operation: line.operation,
      status,
      code: line.code,
      ms: Math.round(seconds * 10_000) / 10,
      ...(response.writableFinished ? {} : { cut_short: true }),
      ...line.exchange?.notes,
      ...(line.error === undefined ? {} : { err: line.error }),
    };
    if (line.error !== undefined) options.log.error(fields, 'request');
    else if (line.quiet && line.code === 'ok') options.log.debug(fields, 'request');
    else options.log.info(fields, 'request');
  }

  return {
    listener,
    fail,
    exchangeOf: (request) => {
      const exchange = exchanges.get(request);
      if (exchange === undefined) throw new Error('request did not pass the edge');
      return exchange;
    },
    drain: () => {
      draining = true;
    },
  };
}

/** Ends the answer with a body of known length. */
export function sendJson(response: ServerResponse, status: number, body: string | Buffer): void {
  response.writeHead(status, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
  });
  response.end(body);
}

function hasLargeBody(request: IncomingMessage, limit: number): boolean {
  if (request.headers['transfer-encoding'] !== undefined || request.headers.expect !== undefined) return true;
  return Number(request.headers['content-length'] ?? 0) > limit;
}
