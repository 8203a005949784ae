import type { IncomingMessage, ServerResponse } from 'node:http';
import {
  type AnswerOf,
  type Contract,
  type OperationName,
  operationOf,
  operationsOf,
  type RequestOf,
} from '@space/contracts';
import express, { type Request, type Response } from 'express';
import { createEdge, type Edge, type EdgeRoute, type Exchange, sendJson } from '../edge.ts';
import { refusal, ServiceError } from '../errors.ts';
import { type ConcurrencyLimit, RateLimit } from '../limits.ts';
import type { Logger } from '../log.ts';
import type { ServiceMetrics } from '../metrics.ts';
import { toServiceError } from '../postgres/errors.ts';
import type { Call } from '../principals/capsules.ts';
import type { Authorities, Caller } from './authorities.ts';

export type Handlers<C extends Contract> = {
  readonly [Name in OperationName<C>]: (
    call: Call,
    request: RequestOf<C, Name>,
  ) => Promise<Omit<AnswerOf<C, Name>, 'trace_id'>>;
};

export interface ControlOptions<C extends Contract> {
  readonly contract: C;
  readonly handlers: Handlers<C>;
  /** The bytes of the contract's documents. */
  readonly documents: Readonly<Record<keyof C['documents'] & string, Buffer>>;
  readonly authorities: Authorities;
  readonly limits: {
    readonly caller: { perSecond: number; burst: number };
    readonly refusals: { perSecond: number; burst: number };
  };
  readonly mutations: ConcurrencyLimit;
  readonly log: Logger;
  readonly metrics: ServiceMetrics;
  /** A place where a test may end the process; does nothing in service. */
  readonly failpoint: (name: string) => void;
}

/** A broker's control listener: discovery, and the contract's operations behind the edge. */
export function createControlApp<C extends Contract>(options: ControlOptions<C>): Edge<Caller> {
  const { contract, documents } = options;
  const app = express();
  app.disable('x-powered-by').disable('etag').enable('case sensitive routing').enable('strict routing');

  const edge = createEdge<Caller>({
    routes: routes(options),
    bodyLimit: contract.longest.request,
    callerKey: (caller) => (caller.authority === 'capsule' ? caller.capsule : undefined),
    callerLimit: new RateLimit(options.limits.caller),
    failureLimit: new RateLimit(options.limits.refusals),
    log: options.log,
    metrics: options.metrics,
    next: (request, response) => app(request, response),
  });

  app.get('/healthz', (_request, response) => sendJson(response, 200, '{"status":"ok"}'));
  for (const [path, bytes] of Object.entries<Buffer>(documents))
    app.get(path, (_request, response) => sendJson(response, 200, bytes));
  for (const name of operationsOf(contract))
    app.post(operationOf(contract, name).path, operate(edge, name, options));
  // Nothing falls through to express's own pages: the edge admits only listed routes, and errors end here.
  app.use((request: Request, response: Response) =>
    edge.fail(request, response, new Error('route without handler')),
  );
  app.use((error: unknown, request: IncomingMessage, response: ServerResponse, _next: unknown) =>
    edge.fail(request, response, error),
  );
  return edge;
}

function routes<C extends Contract>({ contract, authorities }: ControlOptions<C>): EdgeRoute<Caller>[] {
  return [
    { method: 'GET', path: '/healthz', operation: 'healthz', quiet: true },
    ...Object.entries(contract.documents).map(([path, { operation }]) => ({
      method: 'GET' as const,
      path,
      operation,
    })),
    ...operationsOf(contract).map((operation) => {
      const { path, authority } = operationOf(contract, operation);
      const audience = contract.audiences[authority];
      const authenticate = authorities[authority];
      if (audience === undefined || authenticate === undefined)
        throw new Error(`nobody may call ${operation}`);
      return { method: 'POST' as const, path, operation, authority: { audience, authenticate } };
    }),
  ];
}

/** Schema, then the Capsule's own id, then a turn among the mutations, then the work. */
function operate<C extends Contract, Name extends OperationName<C>>(
  edge: Edge<Caller>,
  name: Name,
  { contract, handlers, mutations, failpoint }: ControlOptions<C>,
) {
  return async (request: Request, response: Response): Promise<void> => {
    const exchange = edge.exchangeOf(request);
    try {
      const caller = permitted(exchange);
      const parsed = operationOf(contract, name).request.safeParse(exchange.body);
      if (!parsed.success) throw new ServiceError('invalid_request', 'not the schema of this operation');
      for (const [field, note] of NOTED) if (field in parsed.data) exchange.notes[note] = parsed.data[field];
      const call = {
        traceId: exchange.traceId,
        ...(caller.authority === 'capsule' ? { principal: caller.digest } : {}),
      };
      const turn = await mutations.run(() => handlers[name](call, parsed.data as RequestOf<C, Name>));
      if (turn === undefined) throw new ServiceError('unavailable', 'too much at once', { retryAfter: 1 });
      failpoint('answer');
      sendJson(response, 200, JSON.stringify({ ...turn.value, trace_id: exchange.traceId }));
    } catch (error) {
      edge.fail(request, response, toServiceError(error));
    }
  };
}

/** Fields of a request that its log line names: ids, never a secret. */
const NOTED = [
  ['capsule_id', 'capsule'],
  ['app_id', 'app'],
  ['set_id', 'set'],
] as const;

/** A principal that names another Capsule is refused before anything else is said about its request. */
function permitted({ caller, body }: Exchange<Caller>): Caller {
  if (caller === undefined) throw refusal();
  const named = body['capsule_id'];
  if (caller.authority === 'capsule' && typeof named === 'string' && named !== caller.capsule)
    throw refusal();
  return caller;
}
