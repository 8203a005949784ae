import { Problem } from '../core/problem.ts';
import { type CompiledScrubber, scrubberOf } from '../core/scrub.ts';
import { alphabetOf, type Slot, secretsIn } from '../core/slot.ts';

const MIB = 1024 * 1024;

/** How much of the machine the tables of scrubbers may take. */
export interface ScrubberLimits {
  readonly bytes: number;
  /** Of one Capsule. */
  readonly capsuleBytes: number;
  /** Of tables that one Capsule may have made at once, and then each second. A MiB takes 50 to 90 ms. */
  readonly burstBytes: number;
  readonly bytesPerSecond: number;
  /** How long tables are kept that nobody uses: they know a value, if not in clear. */
  readonly idleMs: number;
}

/** Of the 384 MiB that the chart gives a replica. Tables of the longest values take some 5 MiB, of usual ones 10 KiB. */
const LIMITS: ScrubberLimits = {
  bytes: 48 * MIB,
  capsuleBytes: 12 * MIB,
  burstBytes: 6 * MIB,
  bytesPerSecond: MIB / 2,
  idleMs: 60_000,
};

/** Whose a value is, and the text by which another value of the same input is told from it. */
interface About {
  readonly owner: { readonly capsule: string };
  readonly envelope: string;
  readonly slot: Slot;
}

interface Kept {
  readonly scrubber: CompiledScrubber;
  readonly capsule: string;
  usedAt: number;
}

/**
 * The scrubbers of values in use: made once, and used by all requests with the value. Longest unused ones go when there
 * are too many, and those of a Capsule that has more than its share before all others.
 */
export class Scrubbers {
  readonly #limits: ScrubberLimits;
  readonly #now: () => number;
  /** By envelope, those used last at the end. */
  readonly #kept = new Map<string, Kept>();
  readonly #capsules = new Map<string, { bytes: number; budget: number; at: number }>();
  #bytes = 0;
  #sweep: NodeJS.Timeout | undefined;

  constructor(limits: Partial<ScrubberLimits> = {}, now: () => number = () => performance.now()) {
    this.#limits = { ...LIMITS, ...limits };
    this.#now = now;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** @throws Problem `rate_limited` when a Capsule has others made too often */
  of({ owner, envelope, slot }: About, value: string): CompiledScrubber {
    const kept = this.#kept.get(envelope) ?? this.#make(owner.capsule, slot, value);
    kept.usedAt = this.#now();
    this.#kept.delete(envelope);
    this.#kept.set(envelope, kept);
    return kept.scrubber;
  }

  #make(capsule: string, slot: Slot, value: string): Kept {
    const { bytes, capsuleBytes, burstBytes, bytesPerSecond } = this.#limits;
    const now = this.#now();
    const account = this.#capsules.get(capsule) ?? { bytes: 0, budget: burstBytes, at: now };
    const filled = account.budget + ((now - account.at) / 1000) * bytesPerSecond;
    [account.budget, account.at] = [Math.min(burstBytes, filled), now];
    this.#capsules.set(capsule, account);
    if (account.budget <= 0)
      throw new Problem('rate_limited', { retryAfter: Math.ceil(1 - account.budget / bytesPerSecond) });
    const scrubber = scrubberOf(secretsIn(slot, value), alphabetOf(slot));
    account.budget -= scrubber.bytes;
    account.bytes += scrubber.bytes;
    this.#bytes += scrubber.bytes;
    this.#dropUntil(() => account.bytes <= capsuleBytes, capsule);
    this.#dropUntil(() => this.#bytes <= bytes);
    this.#sweep ??= setInterval(() => this.#dropIdle(), this.#limits.idleMs).unref();
    return { scrubber, capsule, usedAt: now };
  }

  #dropUntil(enough: () => boolean, capsule?: string): void {
    for (const [envelope, kept] of this.#kept) {
      if (enough()) return;
      if (capsule === undefined || kept.capsule === capsule) this.#drop(envelope, kept);
    }
  }

  #dropIdle(): void {
    const { idleMs, burstBytes, bytesPerSecond } = this.#limits;
    const now = this.#now();
    for (const [envelope, kept] of this.#kept) {
      if (now - kept.usedAt < idleMs) break;
      this.#drop(envelope, kept);
    }
    for (const [capsule, { bytes, budget, at }] of this.#capsules)
      if (bytes === 0 && budget + ((now - at) / 1000) * bytesPerSecond >= burstBytes)
        this.#capsules.delete(capsule);
    if (this.#kept.size > 0 || this.#capsules.size > 0) return;
    clearInterval(this.#sweep);
    this.#sweep = undefined;
  }

  #drop(envelope: string, { scrubber, capsule }: Kept): void {
    this.#kept.delete(envelope);
    this.#bytes -= scrubber.bytes;
    const account = this.#capsules.get(capsule);
    if (account !== undefined) account.bytes -= scrubber.bytes;
  }
}
