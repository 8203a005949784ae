import type { ApiClient } from './client.ts';
import { type Clock, sleep } from './clock.ts';
import { withDeadline } from './deadline.ts';
import { isConflict, isNotFound } from './errors.ts';
import { type LeaseObject, type LeaseRef, readLease, writeLease } from './lease-object.ts';
import { wireMicroTime } from './wire-time.ts';

export interface LeaseOptions extends LeaseRef {
  readonly clock: Clock;
  /** Identifies this process, and no other that ever existed. */
  readonly identity: string;
  /** A standby takes a Lease that was not renewed for this long, in milliseconds. */
  readonly durationMs?: number;
  /** A holder that could not renew it for this long gives up, before any other process may take it. */
  readonly giveUpMs?: number;
  readonly renewMs?: number;
  /** The interval in which a standby reads the Lease. */
  readonly lookMs?: number;
  /** The same while the holder is about to release it, and for how long that is expected. */
  readonly releaseLookMs?: number;
  readonly releaseMs?: number;
  /** Whether a holder can no longer write, so that its Lease need not expire first. */
  readonly isGone?: (holder: string, signal: AbortSignal) => Promise<boolean>;
  readonly onProblem?: (error: unknown) => void;
}

/** The Lease was held and is lost: running work must end without another write. */
export class LeaseLostError extends Error {
  override readonly name = 'LeaseLostError';
}

/**
 * A `coordination.k8s.io` Lease, by which one of several processes leads. Times are measured on this machine's
 * monotonic clock from before a renewal was sent, so that clocks may differ and the process may be suspended for any
 * time: `check` fails before another process can succeed.
 */
export class Lease {
  readonly #options: Required<Omit<LeaseOptions, 'isGone' | 'onProblem' | 'owner'>> & LeaseOptions;
  readonly #lost = new AbortController();
  readonly #ending = new AbortController();
  /** The Lease as this process last wrote it. */
  #held: LeaseObject | undefined;
  #heldUntil = Number.NEGATIVE_INFINITY;
  /** The Lease as it was last read from another holder, and when this version was first seen. */
  #seen: { readonly version: string; readonly at: number } | undefined;
  /** The holder for which `isGone` was already asked. */
  #met: string | undefined;
  #renewing: Promise<void> = Promise.resolve();
  #cancelGiveUp = () => {};
  #wake = new AbortController();
  #releasedUntil = Number.NEGATIVE_INFINITY;

  constructor(options: LeaseOptions) {
    this.#options = {
      ...{ durationMs: 15_000, giveUpMs: 10_000, renewMs: 2_000 },
      ...{ lookMs: 1_000, releaseLookMs: 100, releaseMs: 10_000 },
      ...options,
    };
  }

  /** Aborts for good when a held Lease is lost. */
  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  /** Milliseconds for which this process may still write, at most. */
  get remainingMs(): number {
    return this.#lost.signal.aborted ? 0 : Math.max(0, this.#heldUntil - this.#options.clock.now());
  }

  /** Throws unless the Lease is held at this moment. It compares the time itself, as a timer may fire late. */
  check(): void {
    if (this.remainingMs > 0) return;
    if (this.#held) this.#lose('it could not be renewed in time');
    throw new LeaseLostError('the lease is not held');
  }

  /** Resolves when the Lease is held; it is then renewed until `release`, or until it is lost. */
  async acquire(signal: AbortSignal): Promise<void> {
    const { clock, lookMs, releaseLookMs } = this.#options;
    while (!signal.aborted) {
      const wake = this.#wake.signal;
      let waitMs = lookMs;
      try {
        waitMs = await this.#tryToTake(signal);
        if (this.#held) {
          this.#renewing = this.#renew();
          return;
        }
      } catch (error) {
        if (signal.aborted) break;
        // A conflict means that another process was faster.
        if (!isConflict(error)) this.#options.onProblem?.(error);
      }
      const pauseMs = clock.now() < this.#releasedUntil ? releaseLookMs : lookMs;
      const pause = AbortSignal.any([signal, wake]);
      await sleep(clock, Math.min(waitMs, pauseMs * (0.75 + 0.5 * clock.random())), pause);
    }
  }

  /** Looks at once, and often for a while, since the holder is ending: nobody leads until another process notices. */
  expectRelease(): void {
    const { clock, releaseMs } = this.#options;
    this.#releasedUntil = clock.now() + releaseMs;
    this.#wake.abort();
    this.#wake = new AbortController();
  }

  /** Releases the Lease, so that another process need not wait. All work of this process must have ended. */
  async release(): Promise<void> {
    this.#ending.abort();
    await this.#renewing;
    this.#cancelGiveUp();
    const held = this.remainingMs > 0 ? this.#held : undefined;
    this.#held = undefined;
    this.#heldUntil = Number.NEGATIVE_INFINITY;
    if (!held) return;
    await writeLease(this.#options, held, {
      ...held.spec,
      holderIdentity: '',
      leaseDurationSeconds: 1,
    }).catch((error: unknown) => this.#options.onProblem?.(error));
  }

  /** Takes the Lease if it is free; otherwise returns the milliseconds until it should be read again. */
  async #tryToTake(signal: AbortSignal): Promise<number> {
    const { clock, identity } = this.#options;
    const live = await readLease(this.#options, signal);
    const now = wireMicroTime();
    const mine = { holderIdentity: identity, acquireTime: now };
    if (!live) {
      await this.#take(undefined, { ...mine, leaseTransitions: 0 });
      return 0;
    }
    const { holderIdentity: holder = '', leaseDurationSeconds = 0, leaseTransitions = 0 } = live.spec ?? {};
    const version = `${live.metadata.uid}/${live.metadata.resourceVersion}`;
    if (this.#seen?.version !== version) this.#seen = { version, at: clock.now() };
    const unrenewedMs = clock.now() - this.#seen.at;
    // An empty holder has released it; our own name means that the answer to an earlier attempt was lost.
    const free = holder === '' || holder === identity;
    const leftMs = leaseDurationSeconds * 1000 - unrenewedMs;
    if (!free && leftMs > 0 && !(await this.#gone(holder, unrenewedMs, signal))) return leftMs;
    await this.#take(live, {
      ...mine,
      leaseTransitions: holder === identity ? leaseTransitions : leaseTransitions + 1,
    });
    return 0;
  }

  async #gone(holder: string, unrenewedMs: number, signal: AbortSignal): Promise<boolean> {
    const { isGone, renewMs } = this.#options;
    // Asked when the holder is first seen, so that a restarted process detects its own predecessor; later only if the
    // holder misses a renewal.
    if (!isGone || (this.#met === holder && unrenewedMs <= 1.5 * renewMs)) return false;
    const gone = await isGone(holder, signal);
    this.#met = holder;
    return gone;
  }

  async #take(seen: LeaseObject | undefined, spec: LeaseObject['spec']) {
    const sentAt = this.#options.clock.now();
    const leaseDurationSeconds = Math.ceil(this.#options.durationMs / 1000);
    const renewTime = wireMicroTime();
    this.#hold(await writeLease(this.#options, seen, { ...spec, leaseDurationSeconds, renewTime }), sentAt);
  }

  async #renew(): Promise<void> {
    const { clock, renewMs, identity } = this.#options;
    /** When each renewal was sent that had no answer, by its renew time. */
    const unanswered = new Map<string, number>();
    let waitMs = renewMs;
    for (;;) {
      await sleep(clock, waitMs, AbortSignal.any([this.#ending.signal, this.lost]));
      if (this.#ending.signal.aborted || this.lost.aborted || !this.#held) return;
      const sentAt = clock.now();
      const renewTime = wireMicroTime();
      try {
        this.#hold(await writeLease(this.#options, this.#held, { ...this.#held.spec, renewTime }), sentAt);
        unanswered.clear();
        waitMs = renewMs;
      } catch (error) {
        if (this.lost.aborted) return;
        waitMs = renewMs / 4;
        if (!isConflict(error) && !isNotFound(error)) {
          unanswered.set(renewTime, sentAt);
          this.#options.onProblem?.(error);
        } else {
          // Only an answer that names this process as the holder counts as a renewal.
          const live = await readLease(this.#options, this.lost).catch(() => this.#held);
          if (live?.spec?.holderIdentity !== identity) return this.#lose('another took it');
          // A renewal whose answer was lost counts from when it was sent.
          const throughAt = unanswered.get(live.spec.renewTime ?? '');
          if (throughAt === undefined) this.#held = live;
          else this.#hold(live, throughAt);
        }
      }
    }
  }

  #hold(written: LeaseObject, sentAt: number): void {
    const { clock, giveUpMs } = this.#options;
    this.#held = written;
    this.#heldUntil = sentAt + giveUpMs;
    this.#cancelGiveUp();
    this.#cancelGiveUp = clock.after(Math.max(0, this.#heldUntil - clock.now()), () =>
      this.#lose('it could not be renewed in time'),
    );
  }

  #lose(why: string): void {
    if (this.#lost.signal.aborted || this.#ending.signal.aborted) return;
    this.#cancelGiveUp();
    this.#heldUntil = Number.NEGATIVE_INFINITY;
    this.#lost.abort(new LeaseLostError(`the lease is lost: ${why}`));
  }
}

/** A client whose writes require the Lease: none is sent without it, and its loss aborts those that run. */
export function fencedClient(
  client: ApiClient,
  lease: Pick<Lease, 'check' | 'lost' | 'remainingMs'>,
): ApiClient {
  return {
    async call(asked) {
      if (asked.method === 'GET') return client.call(asked);
      lease.check();
      const timeoutMs = Math.ceil(Math.min(asked.timeoutMs ?? Number.POSITIVE_INFINITY, lease.remainingMs));
      return withDeadline(timeoutMs, [asked.signal, lease.lost], (signal) =>
        client.call({ ...asked, signal, timeoutMs, beforeSend: () => lease.check() }),
      );
    },
    lines: (asked) => client.lines(asked),
  };
}
