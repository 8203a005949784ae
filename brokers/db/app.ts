import type { IncomingMessage, ServerResponse } from 'node:http';
import {
  type ConcurrencyLimit,
  createEdge,
  digestOf,
  type Edge,
  type EdgeRoute,
  type Exchange,
  type Logger,
  RateLimit,
  refusal,
  Secret,
  ServiceError,
  type ServiceMetrics,
  sendJson,
} from '@space/broker-kit';
import express, { type Request, type Response } from 'express';
import type { Authenticate, Caller } from './authorities.ts';
import {
  type AnswerOf,
  type Authority,
  CONTRACT,
  OPERATIONS,
  type OperationName,
  type RequestOf,
} from './contract.ts';
import type { Call, Context } from './operations/context.ts';
import { dropApp, dropCapsule, finalizeCapsule } from './operations/drop.ts';
import { createApp, provisionCapsule } from './operations/provision.ts';
import { toServiceError } from './server/errors.ts';

/** 16 KiB on control listeners; the largest valid request is far below. */
const BODY_LIMIT = 16 * 1024;

type Handlers = {
  readonly [Name in OperationName]: (call: Call, request: RequestOf<Name>) => Promise<AnswerOf<Name>>;
};

function handlers(context: Context): Handlers {
  return {
    'capsule.provision': async (call, { capsule_id, principal_token }) => {
      const principal = digestOf(new Secret(principal_token));
      const { url, created } = await provisionCapsule(context, call, capsule_id, principal);
      return { database_url: url, created };
    },
    'capsule.finalize': async (call, { capsule_id }) => ({
      finalized: await finalizeCapsule(context, call, capsule_id),
    }),
    'capsule.app.create': async (call, { capsule_id, app_id }) => {
      const { url, created } = await createApp(context, call, capsule_id, app_id);
      return { database_url: url, created };
    },
    'capsule.app.drop': async (call, { capsule_id, app_id }) => {
      const { name, alreadyAbsent } = await dropApp(context, call, capsule_id, app_id);
      return { dropped: name, ...(alreadyAbsent ? { already_absent: true as const } : {}) };
    },
    'capsule.drop': async (call, { capsule_id }) => ({
      dropped: await dropCapsule(context, call, capsule_id),
    }),
  };
}

export interface AppOptions {
  readonly context: Context;
  readonly driver: Buffer;
  readonly authorities: Record<Authority, Authenticate>;
  readonly limits: {
    readonly caller: { perSecond: number; burst: number };
    readonly refusals: { perSecond: number; burst: number };
  };
  readonly mutations: ConcurrencyLimit;
  readonly log: Logger;
  readonly metrics: ServiceMetrics;
}

/** The seven routes behind the edge. */
export function createBrokerApp(options: AppOptions): Edge<Caller> {
  const app = express();
  app.disable('x-powered-by').disable('etag').enable('case sensitive routing').enable('strict routing');

  const edge = createEdge<Caller>({
    routes: routes(options.authorities),
    bodyLimit: BODY_LIMIT,
    callerKey: (caller) => (caller.authority === 'capsule' ? caller.capsule : undefined),
    callerLimit: new RateLimit(options.limits.caller),
    failureLimit: new RateLimit(options.limits.refusals),
    log: options.log,
    metrics: options.metrics,
    next: (request, response) => app(request, response),
  });

  app.get('/healthz', (_request, response) => sendJson(response, 200, '{"status":"ok"}'));
  app.get('/v1/driver', (_request, response) => sendJson(response, 200, options.driver));
  const operations = handlers(options.context);
  for (const name of OPERATIONS) app.post(CONTRACT[name].path, operate(edge, operations, name, options));
  // Nothing falls through to express's own pages: the edge admits only listed routes, and errors end here.
  app.use((request: Request, response: Response) =>
    edge.fail(request, response, new Error('route without handler')),
  );
  app.use((error: unknown, request: IncomingMessage, response: ServerResponse, _next: unknown) =>
    edge.fail(request, response, error),
  );
  return edge;
}

function routes(authorities: Record<Authority, Authenticate>): EdgeRoute<Caller>[] {
  const audience = { provisioner: 'prv', capsule: 'dbp' } as const;
  return [
    { method: 'GET', path: '/healthz', operation: 'healthz' },
    { method: 'GET', path: '/v1/driver', operation: 'driver' },
    ...OPERATIONS.map((operation) => {
      const { path, authority } = CONTRACT[operation];
      const authenticate = authorities[authority];
      return {
        method: 'POST' as const,
        path,
        operation,
        authority: { audience: audience[authority], authenticate },
      };
    }),
  ];
}

/** Schema, then the Capsule's own id, then a turn among the mutations, then the work. */
function operate<Name extends OperationName>(
  edge: Edge<Caller>,
  operations: Handlers,
  name: Name,
  { mutations, context }: AppOptions,
) {
  return async (request: Request, response: Response): Promise<void> => {
    const exchange = edge.exchangeOf(request);
    try {
      const caller = permitted(exchange);
      const parsed = CONTRACT[name].request.safeParse(exchange.body);
      if (!parsed.success) throw new ServiceError('invalid_request', 'not the schema of this operation');
      const input = parsed.data as RequestOf<Name>;
      exchange.notes['capsule'] = input.capsule_id;
      if ('app_id' in input) exchange.notes['app'] = input.app_id;
      const call = {
        traceId: exchange.traceId,
        ...(caller.authority === 'capsule' ? { principal: caller.digest } : {}),
      };
      const turn = await mutations.run(() => operations[name](call, input));
      if (turn === undefined) throw new ServiceError('unavailable', 'too much at once', { retryAfter: 1 });
      context.failpoint('answer');
      sendJson(response, 200, JSON.stringify({ ...turn.value, trace_id: exchange.traceId }));
    } catch (error) {
      edge.fail(request, response, toServiceError(error));
    }
  };
}

/** A principal that names another Capsule is refused before anything else is said about its request. */
function permitted({ caller, body }: Exchange<Caller>): Caller {
  if (caller === undefined) throw refusal();
  const named = body['capsule_id'];
  if (caller.authority === 'capsule' && typeof named === 'string' && named !== caller.capsule)
    throw refusal();
  return caller;
}
