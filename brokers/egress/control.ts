import type { IncomingMessage, ServerResponse } from 'node:http';
import {
  createEdge,
  type Edge,
  type EdgeRoute,
  isProvisioner,
  type Logger,
  RateLimit,
  Secret,
  ServiceError,
  type ServiceMetrics,
  sendJson,
  type TokenDigest,
  type Watched,
} from '@space/broker-kit';
import { type AnswerOf, CONTRACT, OPERATIONS, type OperationName, type RequestOf } from './contract.ts';
import type { Custody } from './custody.ts';
import type { Reflections } from './data/reflections.ts';
import type { Policies } from './policies/policies.ts';
import { ownerOf } from './policies/tenant.ts';

/** The largest manifest that an API server stores is 1,000,000 bytes; its policy is smaller. */
const BODY_LIMIT = 2 * 1024 * 1024;
/** The operator's own, in one place: one key a replica and second. */
const OPERATOR_LIMIT = { perSecond: 1_000, burst: 10_000 };

type Handlers = {
  readonly [Name in OperationName]: (request: RequestOf<Name>) => Promise<AnswerOf<Name>>;
};

export interface ControlOptions {
  readonly policies: Policies;
  readonly reflections: Reflections;
  readonly custody: Custody;
  /** Random for each start. */
  readonly instance: string;
  readonly tokens: Watched<readonly TokenDigest[]>;
  /** Of one address. */
  readonly refusals: { readonly perSecond: number; readonly burst: number };
  readonly log: Logger;
  readonly metrics: ServiceMetrics;
}

/** The operator's side of the gateway: policies in, acknowledgements out, values sealed and never shown. */
export function createControl(options: ControlOptions): Edge<'operator'> {
  const { policies, reflections, custody, instance, tokens } = options;
  const handlers: Handlers = {
    'policy.put': async (put) => ({ ...(await policies.put(put)), instance }),
    'policy.narrow': async (request) => ({ narrowed: policies.narrow(request), instance }),
    'policy.remove': async (request) => ({ removed: policies.remove(request), instance }),
    'input.suspended': async (request) => {
      const tenant = policies.of(request);
      const inputs = [...(tenant?.inputs.values() ?? [])];
      const suspended = inputs.filter((input) => tenant && reflections.isSuspended(tenant, input));
      return { suspended: suspended.map(({ key }) => key), instance };
    },
    'input.seal': async ({ input, definition, value, ...assistant }) => ({
      envelope: await custody.seal(ownerOf(assistant, input, definition), new Secret(value)),
    }),
    'replica.state': async () => ({ in_step: policies.inStep, instance }),
    'replica.in_step': async (request) => {
      if (request.instance !== instance) throw new ServiceError('conflict', 'another start of the replica');
      policies.markInStep();
      return { instance };
    },
  };
  const authenticate = async (token: Secret<string> | undefined) =>
    isProvisioner(tokens.current(), token) ? ('operator' as const) : undefined;

  const edge = createEdge<'operator'>({
    routes: [
      { method: 'GET', path: '/healthz', operation: 'healthz' },
      ...OPERATIONS.map(
        (operation): EdgeRoute<'operator'> => ({
          method: 'POST',
          path: CONTRACT[operation].path,
          operation,
          authority: { audience: 'prv', authenticate },
        }),
      ),
    ],
    bodyLimit: BODY_LIMIT,
    callerKey: (caller) => caller,
    callerLimit: new RateLimit(OPERATOR_LIMIT),
    failureLimit: new RateLimit(options.refusals),
    log: options.log,
    metrics: options.metrics,
    next: (request, response) => {
      serve(request, response).catch((error: unknown) => edge.fail(request, response, error));
    },
  });

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const exchange = edge.exchangeOf(request);
    if (exchange.operation === 'healthz') return sendJson(response, 200, '{"status":"ok"}');
    const name = OPERATIONS.find((known) => known === exchange.operation);
    if (name === undefined) throw new Error('route without handler');
    sendJson(response, 200, await operate(name, exchange.body, exchange));
  }

  async function operate<Name extends OperationName>(
    name: Name,
    body: unknown,
    { notes, traceId }: { readonly notes: Record<string, unknown>; readonly traceId: string },
  ): Promise<string> {
    const parsed = CONTRACT[name].request.safeParse(body);
    if (!parsed.success) throw new ServiceError('invalid_request', 'not the schema of this operation');
    const input = parsed.data as RequestOf<Name>;
    if ('capsule_id' in input) {
      notes['capsule'] = input.capsule_id;
      notes['app'] = input.app_id;
    }
    if ('revision' in input) notes['revision'] = input.revision;
    return JSON.stringify({ ...(await handlers[name](input)), trace_id: traceId });
  }
  return edge;
}
