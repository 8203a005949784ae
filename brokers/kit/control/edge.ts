import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Audience } from '@space/contracts';
import type { Secret } from '@space/contracts/secret';
import { checkBodyHead, readJsonObject } from '../body.ts';
import { errorBody, refusal, ServiceError } from '../errors.ts';
import type { RateLimit } from '../limits.ts';
import { LineBudget } from '../line-budget.ts';
import type { Logger } from '../log.ts';
import type { ServiceMetrics } from '../metrics.ts';
import { bearerToken } from '../tokens.ts';
import { traceIdOf } from '../trace.ts';
import { RequestLine } from './request-line.ts';

/** Who may call a route. The path is matched by the router, and the work is done by the service. */
export interface EdgeRoute<Caller> {
  readonly method: 'GET' | 'POST';
  readonly operation: string;
  /** Whether machines call the route all the time, so that a successful answer is logged only at level debug. */
  readonly quiet?: boolean;
  /**
   * Present on every route that needs a credential. It is called exactly once for each request, with `undefined` for a
   * missing or malformed credential, and must do the same work for every credential that it refuses.
   */
  readonly authority?: {
    readonly audience: Audience;
    readonly authenticate: (token: Secret<string> | undefined) => Promise<Caller | undefined>;
  };
}

/** An admitted request. */
export interface Exchange<Caller> {
  readonly traceId: string;
  /** Defined on routes with an authority. */
  readonly caller: Caller | undefined;
  /** The parsed object in the body of a POST. */
  readonly body: Readonly<Record<string, unknown>>;
  /** Fields that the service adds to the request's log line; never a secret. */
  readonly notes: Record<string, unknown>;
}

export interface EdgeOptions<Caller> {
  readonly bodyLimit: number;
  /** The key by which a caller's rate is counted; a caller without a key is not limited. */
  readonly callerKey: (caller: Caller) => string | undefined;
  readonly callerLimit: RateLimit;
  readonly failureLimit: RateLimit;
  /** Translates errors of the service's own parts for callers; other errors are returned unchanged. */
  readonly translate: (error: unknown) => unknown;
  readonly log: Logger;
  readonly metrics: ServiceMetrics;
}

type RequestListener = (request: IncomingMessage, response: ServerResponse) => void;

/** Paths that every router reads alike: not an absolute URL, without a fragment, of printable ASCII only. */
const PLAIN_PATH = /^\/[\x21\x22\x24-\x7e]*$/;

/**
 * What happens to a request before the service sees it, in this order: path, method, credential, rate, headers of the
 * body, body. So a caller without a credential learns only which routes exist.
 */
export class Edge<Caller> {
  readonly #options: EdgeOptions<Caller>;
  /** The lines about requests of anybody. Those of a caller are as many as its rate. */
  readonly #strangers: LineBudget;
  readonly #lines = new WeakMap<IncomingMessage, RequestLine>();
  #draining = false;

  constructor(options: EdgeOptions<Caller>) {
    this.#options = options;
    this.#strangers = new LineBudget(options.log);
  }

  /** The listener of a server. The router matches the path, and sees nothing else of the target. */
  listener(router: RequestListener): RequestListener {
    return (request, response) => {
      const line = new RequestLine(traceIdOf(request.headers.traceparent?.toString()));
      this.#lines.set(request, line);
      response.setHeader('cache-control', 'no-store');
      response.setHeader('x-content-type-options', 'nosniff');
      if (this.#draining) response.setHeader('connection', 'close');
      const { log, metrics } = this.#options;
      response.once('close', () => line.record(response, { log, metrics, strangers: this.#strangers }));
      const [path = '', query] = (request.url ?? '').split('?', 2);
      if (!PLAIN_PATH.test(path)) return this.fail(request, response, noRoute());
      line.query = query !== undefined;
      request.url = path;
      router(request, response);
    };
  }

  /** The router's handler of one path: admits the request, then calls the service. */
  serve(
    route: EdgeRoute<Caller>,
    work: (exchange: Exchange<Caller>, response: ServerResponse) => Promise<void> | void,
  ): (request: IncomingMessage, response: ServerResponse) => Promise<void> {
    return async (request, response) => {
      try {
        await work(await this.#admit(route, request, response), response);
      } catch (error) {
        this.fail(request, response, error);
      }
    };
  }

  /** Ends the request with an error answer, and logs the real cause. */
  fail(request: IncomingMessage, response: ServerResponse, thrown: unknown): void {
    const line = this.#lines.get(request);
    const error = this.#options.translate(thrown);
    const known =
      error instanceof ServiceError ? error : new ServiceError('internal', 'unexpected', { cause: error });
    if (line !== undefined) {
      line.code = known.code;
      line.fault = known.isFault ? known : undefined;
    }
    if (response.headersSent) return void response.destroy();
    if (known.retryAfter !== undefined) response.setHeader('retry-after', String(known.retryAfter));
    // Nobody will read this body, so it is not waited for, whatever its length.
    if (!request.complete && hasLargeBody(request, this.#options.bodyLimit))
      response.setHeader('connection', 'close');
    sendJson(response, known.status, errorBody(known.code, line?.traceId ?? '', known.check));
  }

  /** From now on every answer closes its connection. */
  drain(): void {
    this.#draining = true;
  }

  async #admit(
    route: EdgeRoute<Caller>,
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<Exchange<Caller>> {
    const line = this.#lines.get(request);
    if (line === undefined) throw new Error('request did not come through the listener');
    if (route.method !== request.method) {
      response.setHeader('allow', route.method);
      throw new ServiceError('method_not_allowed', 'no such method');
    }
    line.operation = route.operation;
    line.quiet = route.quiet === true;
    const caller = route.authority && (await this.#authenticate(request, route.authority));
    line.admitted = caller !== undefined;
    if (route.method === 'POST' && line.query) throw new ServiceError('invalid_request', 'query on a POST');
    const body = route.method === 'POST' ? await this.#readBody(request, response) : {};
    return { traceId: line.traceId, caller, body, notes: line.notes };
  }

  async #authenticate(
    request: IncomingMessage,
    authority: NonNullable<EdgeRoute<Caller>['authority']>,
  ): Promise<Caller> {
    const { failureLimit, callerLimit, callerKey } = this.#options;
    const address = request.socket.remoteAddress ?? '';
    // A wrong credential costs a look-up until the budget of its address is used up, and none after that.
    const spent = failureLimit.wait(address);
    if (spent !== undefined)
      throw new ServiceError('rate_limited', 'too many refusals', { retryAfter: spent });
    const token = bearerToken(request.rawHeaders, authority.audience);
    const caller = await authority.authenticate(token).catch((error: unknown) => {
      // The attempt cost as much as a refusal; while one of several registries is unavailable, every wrong credential
      // ends here.
      failureLimit.take(address);
      throw error;
    });
    const key = caller === undefined ? undefined : callerKey(caller);
    const wait = caller === undefined ? failureLimit.take(address) : key && callerLimit.take(key);
    if (typeof wait === 'number')
      throw new ServiceError('rate_limited', 'too many requests', { retryAfter: wait });
    if (caller === undefined) throw refusal();
    return caller;
  }

  #readBody(request: IncomingMessage, response: ServerResponse) {
    const { bodyLimit } = this.#options;
    checkBodyHead(request, bodyLimit);
    if (request.headers.expect?.toLowerCase() === '100-continue') response.writeContinue();
    return readJsonObject(request, bodyLimit);
  }
}

/** The error for paths that the router does not know. */
export function noRoute(): ServiceError {
  return new ServiceError('not_found', 'no such route');
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
