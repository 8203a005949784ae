import {
  type GiveBack,
  RateLimit,
  refusal,
  ServiceError,
  type SharedSlots,
  type Turns,
} from '@space/broker-kit';
import type { Call, Tenant } from '../objects/types.ts';
import type { Tenants } from '../principals/tenants.ts';
import type { InTurn } from '../upstream/sinks.ts';
import type { Exchange } from './exchange.ts';
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

/** Admission, for the listener that the requests come to. */
export interface OpenAdmission extends Admission {
  /** Seconds that an address has to wait after too many refusals; undefined for one that need not. */
  afterRefusals(address: string): number | undefined;
  close(): void;
}

export interface AdmissionOptions {
  readonly tenants: Tenants;
  readonly limits: {
    readonly caller: { readonly perSecond: number; readonly burst: number };
    readonly refusals: { readonly perSecond: number; readonly burst: number };
    /** Requests of one Capsule at the same time. */
    readonly streams: number;
  };
  /** Slots for requests at the same time: each holds at most one connection to the Space's bucket. */
  readonly slots: SharedSlots;
  /** Slots for large documents that come in. */
  readonly documents: SharedSlots;
  readonly turns: Turns;
  /** Turns of the processor for bodies of answers. */
  readonly passing: Turns;
  readonly onSlow?: (why: Slow) => void;
  readonly pace?: Partial<PaceOptions>;
}

/** Larger documents are few at once. */
const SMALL_DOCUMENT = 16 * 1024;
/** How long a document may take to come in. */
const DOCUMENT_MS = 60_000;

export function createAdmission(options: AdmissionOptions): OpenAdmission {
  const { limits, slots, documents, turns, passing } = options;
  const pace = createPace(options.pace, { waiting: () => slots.waiting });
  const callerLimit = new RateLimit(limits.caller);
  const failureLimit = new RateLimit(limits.refusals);
  const transfer = watchTransfers(pace, options);
  const { signOfLifeMs } = { ...DEFAULTS, ...options.pace };

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

  return {
    admit,
    callOf,
    document,
    transfer,
    signOfLifeMs,
    afterRefusals: (address) => failureLimit.wait(address),
    close: () => pace.close(),
  };
}

function watchTransfers(
  pace: ReturnType<typeof createPace>,
  { slots, tenants, onSlow }: Pick<AdmissionOptions, 'slots' | 'tenants' | 'onSlow'>,
): Admission['transfer'] {
  return (exchange) => {
    const { request, response, tenant } = exchange;
    if (request.headers.expect?.toLowerCase() === '100-continue' && !request.complete)
      response.writeContinue();
    const stop = pace.watch({
      request,
      response,
      onSlow: (why) => {
        onSlow?.(why);
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
  };
}

/** Ends a transfer from our side: by an answer if there is none yet, else by cutting it. */
function end(exchange: Exchange, error: ServiceError): void {
  exchange.abort.abort(error);
  if (exchange.response.headersSent) exchange.response.destroy();
}
