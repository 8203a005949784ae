import type { ServerResponse } from 'node:http';
import {
  type AnswerOf,
  type Contract,
  type OperationName,
  operationOf,
  operationsOf,
  type RequestOf,
} from '@space/contracts';
import express, { type Request, type Response } from 'express';
import { refusal, ServiceError } from '../errors.ts';
import { RateLimit } from '../limits.ts';
import type { Served } from '../listener.ts';
import type { Logger } from '../log.ts';
import type { ServiceMetrics } from '../metrics.ts';
import type { Call } from '../principals/capsules.ts';
import type { SharedSlots } from '../shares.ts';
import type { Authorities, Caller } from './authorities.ts';
import { Edge, type EdgeRoute, type Exchange, noRoute, sendJson } from './edge.ts';

export type Handlers<C extends Contract> = {
  readonly [Name in OperationName<C>]: (
    call: Call,
    request: RequestOf<C, Name>,
  ) => Promise<Omit<AnswerOf<C, Name>, 'trace_id'>>;
};

export interface ControlOptions<C extends Contract> {
  readonly contract: C;
  readonly handlers: Handlers<C>;
  /** The exact bytes of the contract's documents. */
  readonly documents: Readonly<Record<keyof C['documents'] & string, Buffer>>;
  readonly authorities: Authorities;
  readonly limits: {
    readonly caller: { perSecond: number; burst: number };
    readonly refusals: { perSecond: number; burst: number };
  };
  /** The key by which a caller's rate is counted; by default the Capsule's id. */
  readonly callerKey?: (caller: Caller) => string | undefined;
  /** The slots of Capsules that work waits for, if any. */
  readonly mutations?: SharedSlots;
  /** Translates errors of the service's own parts for callers. */
  readonly translate?: (error: unknown) => unknown;
  readonly log: Logger;
  readonly metrics: ServiceMetrics;
  /** A place where a test may end the process; in production it does nothing. */
  readonly failpoint?: (name: string) => void;
}

/** Creates a service's control listener: discovery, and the contract's operations behind the edge. */
export function createControlApp<C extends Contract>(options: ControlOptions<C>): Served {
  const { contract, documents } = options;
  const edge = new Edge<Caller>({
    bodyLimit: contract.longest.request,
    callerKey: options.callerKey ?? capsuleOf,
    callerLimit: new RateLimit(options.limits.caller),
    failureLimit: new RateLimit(options.limits.refusals),
    translate: options.translate ?? ((error) => error),
    log: options.log,
    metrics: options.metrics,
  });
  const app = express();
  app.disable('x-powered-by').disable('etag').enable('case sensitive routing').enable('strict routing');
  // One path has one route, so that every other method is refused.
  const answer = (path: string, operation: string, bytes: string | Buffer, quiet = false) =>
    app
      .route(path)
      .all(edge.serve({ method: 'GET', operation, quiet }, (_, response) => sendJson(response, 200, bytes)));
  answer('/healthz', 'healthz', '{"status":"ok"}', true);
  for (const [path, { operation }] of Object.entries(contract.documents))
    answer(path, operation, bytesOf(documents, path));
  for (const name of operationsOf(contract))
    app
      .route(operationOf(contract, name).path)
      .all(
        edge.serve(routeOf(options, name), (exchange, response) =>
          operate(options, name, exchange, response),
        ),
      );
  // Express's own error pages are never sent.
  app.use((request: Request, response: Response) => edge.fail(request, response, noRoute()));
  app.use((error: unknown, request: Request, response: Response, _next: unknown) =>
    edge.fail(request, response, error),
  );
  return {
    listener: edge.listener((request, response) => app(request, response)),
    drain: () => edge.drain(),
  };
}

const capsuleOf = (caller: Caller) => (caller.authority === 'capsule' ? caller.capsule : undefined);

function bytesOf(documents: Readonly<Record<string, Buffer>>, path: string): Buffer {
  const bytes = documents[path];
  if (bytes === undefined) throw new Error(`there is no document for ${path}`);
  return bytes;
}

function routeOf<C extends Contract>(
  { contract, authorities }: ControlOptions<C>,
  operation: OperationName<C>,
): EdgeRoute<Caller> {
  const { authority } = operationOf(contract, operation);
  const audience = contract.audiences[authority];
  const authenticate = authorities[authority];
  if (audience === undefined || authenticate === undefined) throw new Error(`nobody may call ${operation}`);
  return { method: 'POST', operation, authority: { audience, authenticate } };
}

/** Checks the Capsule's id and the schema, waits for a slot of the Capsule, and then does the work. */
async function operate<C extends Contract, Name extends OperationName<C>>(
  { contract, handlers, mutations, failpoint }: ControlOptions<C>,
  name: Name,
  exchange: Exchange<Caller>,
  response: ServerResponse,
): Promise<void> {
  const caller = permitted(exchange);
  const parsed = operationOf(contract, name).request.safeParse(exchange.body);
  if (!parsed.success) throw new ServiceError('invalid_request', 'not the schema of this operation');
  for (const [field, note] of NOTED) if (field in parsed.data) exchange.notes[note] = parsed.data[field];
  const call = {
    traceId: exchange.traceId,
    ...(caller.authority === 'capsule' ? { principal: caller.digest } : {}),
  };
  const giveBack = await mutations?.take(String(exchange.body['capsule_id'] ?? caller.authority));
  try {
    const value = await handlers[name](call, parsed.data as RequestOf<C, Name>);
    failpoint?.('answer');
    sendJson(response, 200, JSON.stringify({ ...value, trace_id: exchange.traceId }));
  } finally {
    giveBack?.();
  }
}

/** Fields of a request that are logged: ids and digests, never a secret. */
const NOTED = [
  ['capsule_id', 'capsule'],
  ['app_id', 'app'],
  ['set_id', 'set'],
  ['revision', 'revision'],
] as const;

/** Refuses a principal for another Capsule before anything else is reported about the request. */
function permitted({ caller, body }: Exchange<Caller>): Caller {
  if (caller === undefined) throw refusal();
  const named = body['capsule_id'];
  if (caller.authority === 'capsule' && typeof named === 'string' && named !== caller.capsule)
    throw refusal();
  return caller;
}
