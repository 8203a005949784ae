import type { IncomingMessage, ServerResponse } from 'node:http';
import {
  type GiveBack,
  type Logger,
  RateLimit,
  refusal,
  ServiceError,
  type ServiceMetrics,
  type SharedPlaces,
  type Turns,
} from '@space/broker-kit';
import type { Call, Tenant } from '../objects/types.ts';
import type { Tenants } from '../principals/tenants.ts';
import { toServiceError } from '../upstream/errors.ts';
import type { InTurn } from '../upstream/sinks.ts';
import { beginExchange, type Exchange, type Protocol } from './exchange.ts';
import { createPace, DEFAULTS, type PaceOptions, type Slow } from './slow-callers.ts';

/** Lets requests in for both protocols, and watches what they move. */
export interface Admission {
  /**
   * Lets an exchange in, or throws: the one refusal for nobody, `rate_limited` for too many or too much at once,
   * `unavailable` when it has waited for a slot and none was free. Called exactly once, before anything of
   * the request but its credential was looked at.
   */
  admit(exchange: Exchange, tenant: Tenant | undefined): Promise<Tenant>;
  /** What the store is told of who asks. */
  callOf(exchange: Exchange, tenant: Tenant, grant: string | undefined): Call;
  /**
   * Lets a body be read that is one document of at most so many bytes; in few at once where they are large, and within
   * a time. Until `done`, which has to be called.
   */
  document(exchange: Exchange, bytes: number): Promise<Document>;
  readonly signOfLifeMs: number;
  /** Watches a body in either direction until the exchange ends; the caller's wait for 100 ends here. */
  transfer(exchange: Exchange): void;
}

/** A document that is being read. */
interface Document {
  /** Every piece of work for it. */
  readonly inTurn: InTurn;
  readonly done: () => void;
}

export interface PlaneOptions {
  readonly protocols: (admission: Admission) => { readonly json: Protocol; readonly s3: Protocol };
  readonly tenants: Tenants;
  readonly limits: {
    readonly caller: { readonly perSecond: number; readonly burst: number };
    readonly refusals: { readonly perSecond: number; readonly burst: number };
    /** Requests of one Capsule at the same time. */
    readonly streams: number;
  };
  /** Slots for requests at the same time: each holds at most one connection to the Space's bucket. */
  readonly slots: SharedPlaces;
  /** Slots for large documents that come in. */
  readonly documents: SharedPlaces;
  readonly turns: Turns;
  /** Turns of the processor for bodies of answers. */
  readonly passing: Turns;
  readonly onSlow?: (why: Slow) => void;
  readonly pace?: Partial<PaceOptions>;
  readonly log: Logger;
  readonly metrics: ServiceMetrics;
}

export interface DataPlane {
  readonly listener: (request: IncomingMessage, response: ServerResponse) => void;
  /** From now on every answer closes its connection. */
  drain(): void;
  close(): void;
}

/** How long a caller whose request was refused may go on sending before the connection is cut. */
const LINGER_MS = 2_000;
/** Larger documents are few at once. */
const SMALL_DOCUMENT = 16 * 1024;
/** How long a document may take to come in. */
const DOCUMENT_MS = 60_000;

/** Routes every request of the data listener to its protocol, and ends each with one log line. */
export function createDataPlane(options: PlaneOptions): DataPlane {
  const { log, metrics, limits, tenants, slots, documents, turns, passing } = options;
  const pace = createPace(options.pace, { waiting: () => slots.waiting });
  const callerLimit = new RateLimit(limits.caller);
  const failureLimit = new RateLimit(limits.refusals);
  let draining = false;

  const { signOfLifeMs } = { ...DEFAULTS, ...options.pace };
  const admission: Admission = { admit, callOf, document, transfer, signOfLifeMs };
  const { json, s3 } = options.protocols(admission);

  async function admit(exchange: Exchange, tenant: Tenant | undefined): Promise<Tenant> {
    const wait =
      tenant === undefined
        ? failureLimit.take(exchange.request.socket.remoteAddress ?? '')
        : callerLimit.take(tenant.capsulePrefix);
    if (wait !== undefined) throw new ServiceError('rate_limited', 'too many requests', { retryAfter: wait });
    if (tenant === undefined) throw refusal();
    exchange.tenant = tenant;
    // Gone while we looked it up: nothing would ever give its slot back.
    if (exchange.abort.signal.aborted) throw new ServiceError('invalid_request', 'caller gone');
    if (slots.heldBy(tenant.capsulePrefix) >= limits.streams)
      throw new ServiceError('rate_limited', 'too many requests at once', { retryAfter: 1 });
    const release = await slots.take(tenant.capsulePrefix, exchange.abort.signal);
    if (exchange.abort.signal.aborted) {
      release();
      throw new ServiceError('invalid_request', 'caller gone');
    }
    exchange.release = release;
    return tenant;
  }

  function callOf(exchange: Exchange, tenant: Tenant, grant: string | undefined): Call {
    return {
      tenant,
      signal: exchange.abort.signal,
      grant,
      inTurn: (act) => turns.run(tenant.capsulePrefix, act),
      passing: {
        isShared: () => slots.isShared,
        inTurn: (act) => passing.run(tenant.capsulePrefix, act),
      },
      isElsewhere: () => exchange.release?.(),
    };
  }

  async function document(exchange: Exchange, bytes: number): Promise<Document> {
    const key = exchange.tenant?.capsulePrefix ?? '';
    const { signal } = exchange.abort;
    const back: GiveBack = bytes > SMALL_DOCUMENT ? await documents.take(key, signal) : () => undefined;
    const late = setTimeout(
      () => end(exchange, new ServiceError('invalid_request', 'too slow')),
      DOCUMENT_MS,
    );
    const done = () => {
      clearTimeout(late);
      back();
    };
    exchange.response.once('close', done);
    transfer(exchange);
    return { inTurn: (act) => turns.run(key, act), done };
  }

  function transfer(exchange: Exchange): void {
    const { request, response, tenant } = exchange;
    if (request.headers.expect?.toLowerCase() === '100-continue' && !request.complete)
      response.writeContinue();
    const stop = pace.watch({
      request,
      response,
      onSlow: (why) => {
        options.onSlow?.(why);
        end(exchange, new ServiceError('invalid_request', `too slow: ${why}`));
      },
      isPressed: () =>
        tenant !== undefined &&
        slots.heldBy(tenant.capsulePrefix) > (slots.leastOfWaiting ?? Number.POSITIVE_INFINITY),
      // Its principal may have been retired since it was let in.
      onRecheck: () => {
        if (tenant === undefined) return;
        tenants.byDigest(tenant.digest).then(
          (still) => still ?? end(exchange, refusal()),
          // The registry is away: whoever was let in is not thrown out for that.
          () => undefined,
        );
      },
    });
    response.once('close', stop);
  }

  /** Ends a transfer from our side: by an answer if there is none yet, else by cutting it. */
  function end(exchange: Exchange, error: ServiceError): void {
    exchange.abort.abort(error);
    if (exchange.response.headersSent) exchange.response.destroy();
  }

  function fail(exchange: Exchange, protocol: Protocol, thrown: unknown): void {
    const { request, response, abort } = exchange;
    // What aborted the work is the reason, not the abort.
    const reason =
      abort.signal.aborted && abort.signal.reason instanceof ServiceError ? abort.signal.reason : thrown;
    const gone = abort.signal.aborted && !(abort.signal.reason instanceof ServiceError);
    const error = gone
      ? new ServiceError('invalid_request', 'caller gone', { cause: thrown })
      : toServiceError(reason);
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

  /** Reads on for a moment, so that the caller sees the answer before the connection is cut. */
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

  function listener(request: IncomingMessage, response: ServerResponse): void {
    const exchange = beginExchange(request, response);
    const protocol = exchange.path.startsWith('/v1/') || exchange.path === '/healthz' ? json : s3;
    if (draining) exchange.common['connection'] = 'close';
    // A copy goes on when its caller hangs up: only when both are over is there room for another.
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

  /** Whoever guesses costs a look-up each time, until the budget of its address is spent: then it costs none. */
  async function admitted(exchange: Exchange, protocol: Protocol): Promise<void> {
    const spent =
      exchange.path === '/healthz'
        ? undefined
        : failureLimit.wait(exchange.request.socket.remoteAddress ?? '');
    if (spent !== undefined)
      throw new ServiceError('rate_limited', 'too many refusals', { retryAfter: spent });
    await protocol.serve(exchange);
  }

  function record(exchange: Exchange): void {
    const { response, operation, code, tenant, error } = exchange;
    const seconds = (performance.now() - exchange.startedAt) / 1000;
    metrics.requests.labels(operation, String(response.statusCode), code).observe(seconds);
    const fields = {
      trace_id: exchange.traceId,
      operation,
      status: response.statusCode,
      code,
      ms: Math.round(seconds * 10_000) / 10,
      ...(response.writableFinished ? {} : { cut_short: true }),
      ...(tenant === undefined ? {} : { capsule: tenant.capsule, app: tenant.app }),
      ...(error === undefined ? {} : { err: error }),
    };
    if (error === undefined) log.info(fields, 'request');
    else log.error(fields, 'request');
  }

  return {
    listener,
    drain: () => {
      draining = true;
    },
    close: () => pace.close(),
  };
}
