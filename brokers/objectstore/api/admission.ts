import { RateLimit, refusal, ServiceError, type SharedSlots, type Turns } from '@space/broker-kit';
import type { ObjectCall, Tenant } from '../objects/types.ts';
import type { Tenants } from '../principals/tenants.ts';
import { passingFor } from '../quota/shares.ts';
import type { InTurn } from '../upstream/sinks.ts';
import type { Exchange } from './exchange.ts';
import { createPace, DEFAULTS, type HeldSlot, type PaceOptions, type Slow } from './slow-callers.ts';

/** Admits requests of both protocols, and watches their bodies. */
export interface Admission {
  /**
   * Admits an exchange, or throws: the one refusal without a tenant, `rate_limited` for too many requests,
   * `unavailable` if no slot became free in time. It is called exactly once, before anything of the request but its
   * credential is examined.
   */
  admit(exchange: Exchange, tenant: Tenant | undefined): Promise<Tenant>;
  /** The caller as the store sees it. */
  callOf(exchange: Exchange, tenant: Tenant, grant: string | undefined): ObjectCall;
  /**
   * Permits reading a body that is one document of at most so many bytes. Only a few large ones are read at once, each
   * within a time limit. `done` must be called afterwards.
   */
  document(exchange: Exchange, bytes: number): Promise<Document>;
  readonly signOfLifeMs: number;
  /** Watches a body in either direction until the exchange ends. A caller that waits for 100 is answered here. */
  transfer(exchange: Exchange): void;
}

/** A document that is being read. */
interface Document {
  /** Runs every piece of work for the document. */
  readonly inTurn: InTurn;
  readonly done: () => void;
}

/** Admission, with what the listener needs. */
export interface OpenAdmission extends Admission {
  /** Seconds that an address has to wait after too many refusals; undefined if it need not. */
  afterRefusals(address: string): number | undefined;
  close(): void;
}

export interface AdmissionOptions {
  readonly tenants: Tenants;
  readonly limits: {
    readonly caller: { readonly perSecond: number; readonly burst: number };
    readonly refusals: { readonly perSecond: number; readonly burst: number };
    /** The most requests of one Capsule at the same time. */
    readonly streams: number;
  };
  /** Slots for requests at the same time: each holds at most one connection to the Space's bucket. */
  readonly slots: SharedSlots;
  /** Slots for requests to Capsules' own buckets, which hold none of the others. */
  readonly elsewhere: Pick<SharedSlots, 'hasOther'>;
  /** Slots for large documents that come in. */
  readonly documents: SharedSlots;
  readonly turns: Turns;
  /** Takes turns with the processor for long bodies. */
  readonly passing: Turns;
  readonly onSlow?: (why: Slow) => void;
  readonly pace?: Partial<PaceOptions>;
}

/** Documents of more bytes than this are limited in number. */
const SMALL_DOCUMENT = 16 * 1024;
/** Milliseconds in which a document must arrive. */
const DOCUMENT_MS = 60_000;

export function createAdmission(options: AdmissionOptions): OpenAdmission {
  const { limits, slots, documents, turns } = options;
  const pace = createPace(options.pace);
  const callerLimit = new RateLimit(limits.caller);
  const failureLimit = new RateLimit(limits.refusals);
  const watch = watching(pace, options);
  const transfer = (exchange: Exchange) => {
    letSend(exchange);
    watch(exchange);
  };
  const { signOfLifeMs } = { ...DEFAULTS, ...options.pace };

  async function admit(exchange: Exchange, tenant: Tenant | undefined): Promise<Tenant> {
    const wait =
      tenant === undefined
        ? failureLimit.take(exchange.request.socket.remoteAddress ?? '')
        : callerLimit.take(tenant.capsulePrefix);
    if (wait !== undefined) throw new ServiceError('rate_limited', 'too many requests', { retryAfter: wait });
    if (tenant === undefined) throw refusal();
    exchange.tenant = tenant;
    // The caller went away during the look-up, so nothing would ever give its slot back.
    if (exchange.abort.signal.aborted) throw new ServiceError('invalid_request', 'caller gone');
    if (slots.heldBy(tenant.capsulePrefix) >= limits.streams)
      throw new ServiceError('rate_limited', 'too many requests at once', { retryAfter: 1 });
    await takeSlot(exchange, slots, tenant.capsulePrefix);
    return tenant;
  }

  function callOf(exchange: Exchange, tenant: Tenant, grant: string | undefined): ObjectCall {
    const { capsulePrefix } = tenant;
    return {
      tenant,
      signal: exchange.abort.signal,
      grant,
      inTurn: (act) => turns.run(capsulePrefix, act),
      passing: passingFor(options, capsulePrefix),
      isElsewhere: () => exchange.release?.(),
      holds: (more) => {
        exchange.held.set(more, { whoever: true });
        watch(exchange);
        return () => exchange.held.delete(more);
      },
    };
  }

  async function document(exchange: Exchange, bytes: number): Promise<Document> {
    const key = exchange.tenant?.capsulePrefix ?? '';
    const { signal } = exchange.abort;
    const back = bytes > SMALL_DOCUMENT ? await documents.take(key, signal) : undefined;
    if (back !== undefined) exchange.held.set(documents, { whoever: false });
    const late = setTimeout(
      () => end(exchange, new ServiceError('invalid_request', 'too slow')),
      DOCUMENT_MS,
    );
    const done = () => {
      clearTimeout(late);
      exchange.held.delete(documents);
      back?.();
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

async function takeSlot(exchange: Exchange, slots: SharedSlots, key: string): Promise<void> {
  const release = await slots.take(key, exchange.abort.signal);
  if (exchange.abort.signal.aborted) {
    release();
    throw new ServiceError('invalid_request', 'caller gone');
  }
  exchange.held.set(slots, { whoever: false });
  exchange.release = () => {
    exchange.held.delete(slots);
    release();
  };
}

/** A caller that waits for 100 is answered here. */
function letSend({ request, response }: Exchange): void {
  if (request.headers.expect?.toLowerCase() === '100-continue' && !request.complete) response.writeContinue();
}

/** Watches a request until it ends; called again when it has got a slot that it waited for. */
function watching(
  pace: ReturnType<typeof createPace>,
  { tenants, onSlow }: Pick<AdmissionOptions, 'tenants' | 'onSlow'>,
): (exchange: Exchange) => void {
  const watched = new WeakMap<Exchange, () => void>();
  return (exchange) => {
    const { request, response, tenant, held } = exchange;
    const key = tenant?.capsulePrefix ?? '';
    const former = watched.get(exchange);
    former?.();
    const stop = pace.watch({
      request,
      response,
      onSlow: (why, slot) => {
        onSlow?.(why);
        end(exchange, tooSlow(why, slot));
      },
      held: () => [...held].map(([slots, { whoever }]) => ({ slots, key, whoever })),
      // The principal may have been retired since the request was admitted.
      onRecheck: () => {
        if (tenant === undefined) return;
        tenants.byDigest(tenant.digest).then(
          (still) => still ?? end(exchange, refusal()),
          // If the registry is unavailable, admitted requests continue.
          () => undefined,
        );
      },
    });
    watched.set(exchange, stop);
    if (former === undefined) response.once('close', () => watched.get(exchange)?.());
  };
}

function tooSlow(why: Slow, slot: HeldSlot | undefined): ServiceError {
  return slot?.whoever === true
    ? new ServiceError('unavailable', "slow with a server of the Capsule's own", { retryAfter: 1 })
    : new ServiceError('invalid_request', `too slow: ${why}`);
}

/** Ends a transfer: with an answer if there is none yet, otherwise by closing the connection. */
function end(exchange: Exchange, error: ServiceError): void {
  exchange.abort.abort(error);
  if (exchange.response.headersSent) exchange.response.destroy();
}
