import {
  type Logger,
  Secret,
  type Served,
  ServiceError,
  type ServiceMetrics,
  type TokenDigest,
  type Watched,
} from '@space/broker-kit';
import {
  createControlApp,
  type Handlers,
  observerAuthority,
  provisionerAuthority,
} from '@space/broker-kit/control';
import { EGRESS } from '@space/contracts/egress';
import type { Custody } from './custody.ts';
import type { Calls } from './data/calls.ts';
import type { Reflections } from './data/reflections.ts';
import type { Policies } from './policies/policies.ts';
import { ownerOf } from './policies/tenant.ts';

/** The rate of the operator, which has one key for each replica. */
const OPERATOR_LIMIT = { perSecond: 1_000, burst: 10_000 };

export interface ControlOptions {
  readonly policies: Policies;
  readonly reflections: Reflections;
  readonly calls: Calls;
  readonly custody: Custody;
  /** A random identifier of this process. */
  readonly instance: string;
  readonly tokens: Watched<readonly TokenDigest[]>;
  /** Tokens of read-only callers; if undefined, nobody may read. */
  readonly observers: Watched<readonly TokenDigest[]> | undefined;
  /** The limit of refusals for one address. */
  readonly refusals: { readonly perSecond: number; readonly burst: number };
  readonly log: Logger;
  readonly metrics: ServiceMetrics;
}

/**
 * The operator's interface to the gateway: it receives policies, returns acknowledgements, and seals values that it
 * never shows.
 */
export function createControl(options: ControlOptions): Served {
  return createControlApp({
    contract: EGRESS,
    handlers: handlers(options),
    documents: {},
    authorities: {
      provisioner: provisionerAuthority(options.tokens.current),
      observer: observerAuthority(options.observers?.current ?? (() => [])),
    },
    callerKey: ({ authority }) => authority,
    limits: { caller: OPERATOR_LIMIT, refusals: options.refusals },
    log: options.log,
    metrics: options.metrics,
  });
}

/** The operations of the contract: each translates its request, does the work, and translates the result. */
function handlers({
  policies,
  reflections,
  calls,
  custody,
  instance,
}: ControlOptions): Handlers<typeof EGRESS> {
  return {
    'policy.put': async (_, put) => ({ ...(await policies.put(put)), instance }),
    'policy.narrow': async (_, request) => ({ narrowed: policies.narrow(request), instance }),
    'policy.remove': async (_, request) => ({ removed: policies.remove(request), instance }),
    'input.suspended': async (_, request) => {
      const tenant = policies.of(request);
      const inputs = [...(tenant?.inputs.values() ?? [])];
      const suspended = inputs.filter((input) => tenant && reflections.isSuspended(tenant, input));
      return { suspended: suspended.map(({ key }) => key), instance };
    },
    'input.seal': async (_, { input, definition, value, ...assistant }) => ({
      envelope: await custody.seal(ownerOf(assistant, input, definition), new Secret(value)),
    }),
    'calls.tell': async (_, request) => ({ ...calls.of(policies.of(request)), instance }),
    'replica.state': async () => ({ in_step: policies.inStep, instance }),
    'replica.in_step': async (_, request) => {
      if (request.instance !== instance) throw new ServiceError('conflict', 'another start of the replica');
      policies.markInStep();
      return { instance };
    },
  };
}
