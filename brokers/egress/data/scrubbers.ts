import type { Turns } from '@space/broker-kit';
import { Problem } from '../core/problem.ts';
import { type CompiledScrubber, prepareScrubber } from '../core/scrub.ts';
import type { Slices } from '../core/slices.ts';
import { alphabetOf, type Slot, secretsIn } from '../core/slot.ts';

const MIB = 1024 * 1024;

/** How much memory and time the tables of scrubbers may take. */
export interface ScrubberLimits {
  readonly bytes: number;
  /** The most bytes of tables of one Capsule. */
  readonly capsuleBytes: number;
  /** Bytes of tables that one Capsule may have compiled at once, and then in each second; 1 MiB takes about 50 ms. */
  readonly burstBytes: number;
  readonly bytesPerSecond: number;
  /** Milliseconds for which unused tables are kept, since a value could be reconstructed from them. */
  readonly idleMs: number;
}

/** The chart gives a replica 768 MiB. Tables of the longest values take some 6 MiB, those of usual ones 10 KiB. */
const LIMITS: ScrubberLimits = {
  bytes: 48 * MIB,
  capsuleBytes: 12 * MIB,
  // Enough for two of the longest values.
  burstBytes: 12 * MIB,
  bytesPerSecond: MIB / 2,
  idleMs: 60_000,
};

/** The owner of a value, and its envelope, which differs for each value. */
interface ValueRef {
  readonly owner: { readonly capsule: string };
  readonly envelope: string;
  readonly slot: Slot;
}

interface Kept {
  readonly scrubber: CompiledScrubber;
  readonly capsule: string;
  usedAt: number;
}

/** The bytes of tables that a Capsule has, and those that it may still have compiled. */
interface CapsuleUsage {
  bytes: number;
  budget: number;
  at: number;
}

/**
 * The scrubbers of values in use, each compiled once for all requests with the value. If there are too many, the least
 * recently used ones are dropped; a Capsule over its share loses its own first.
 */
export class Scrubbers {
  readonly #limits: ScrubberLimits;
  readonly #turns: Pick<Turns, 'run'>;
  readonly #now: () => number;
  readonly #prepare: typeof prepareScrubber;
  /** Scrubbers by envelope, least recently used first. */
  readonly #kept = new Map<string, Kept>();
  readonly #capsules = new Map<string, CapsuleUsage>();
  /** Scrubbers that take more than one slice to compile, by envelope. */
  readonly #making = new Map<string, Promise<CompiledScrubber>>();
  /** Resolves when the last one is compiled; the next one waits for it. */
  #line = Promise.resolve();
  #bytes = 0;
  #sweep: NodeJS.Timeout | undefined;

  constructor(
    turns: Pick<Turns, 'run'>,
    limits: Partial<ScrubberLimits> = {},
    now: () => number = () => performance.now(),
    prepare: typeof prepareScrubber = prepareScrubber,
  ) {
    this.#turns = turns;
    this.#limits = { ...LIMITS, ...limits };
    this.#now = now;
    this.#prepare = prepare;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Returns a scrubber. A usual value takes one slice. For a longer one the work is begun again in a queue, one at a
   * time and each slice in its Capsule's turn: waiting requests use no memory, and the work does not block the process.
   * @throws Problem `rate_limited` if a Capsule has scrubbers compiled too often
   */
  async of(ref: ValueRef, reveal: () => string): Promise<CompiledScrubber> {
    const { envelope } = ref;
    const kept = this.#kept.get(envelope);
    if (kept !== undefined) return this.#keep(envelope, kept);
    const making = this.#making.get(envelope);
    if (making !== undefined) return making;
    const { done, value } = this.#begin(ref, reveal).next();
    if (done) return this.#made(ref, value);
    const made = this.#makeQueued(ref, reveal).finally(() => this.#making.delete(envelope));
    this.#making.set(envelope, made);
    return made;
  }

  async #makeQueued(ref: ValueRef, reveal: () => string): Promise<CompiledScrubber> {
    const before = this.#line;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#line = promise;
    await before;
    try {
      const slices = this.#begin(ref, reveal);
      for (;;) {
        const { done, value } = await this.#turns.run(ref.owner.capsule, () => slices.next());
        if (done) return this.#made(ref, value);
      }
    } finally {
      resolve();
    }
  }

  #begin({ owner, slot }: ValueRef, reveal: () => string): Slices<CompiledScrubber> {
    const { budget } = this.#account(owner.capsule);
    if (budget <= 0)
      throw new Problem('rate_limited', { retryAfter: Math.ceil(1 - budget / this.#limits.bytesPerSecond) });
    return this.#prepare(secretsIn(slot, reveal()), alphabetOf(slot));
  }

  #made({ owner: { capsule }, envelope }: ValueRef, scrubber: CompiledScrubber): CompiledScrubber {
    const account = this.#account(capsule);
    account.budget -= scrubber.bytes;
    account.bytes += scrubber.bytes;
    this.#bytes += scrubber.bytes;
    this.#dropUntil(() => account.bytes <= this.#limits.capsuleBytes, capsule);
    this.#dropUntil(() => this.#bytes <= this.#limits.bytes);
    return this.#keep(envelope, { scrubber, capsule, usedAt: 0 });
  }

  #account(capsule: string): CapsuleUsage {
    const { burstBytes, bytesPerSecond, idleMs } = this.#limits;
    const now = this.#now();
    const account = this.#capsules.get(capsule) ?? { bytes: 0, budget: burstBytes, at: now };
    const filled = account.budget + ((now - account.at) / 1000) * bytesPerSecond;
    [account.budget, account.at] = [Math.min(burstBytes, filled), now];
    this.#capsules.set(capsule, account);
    this.#sweep ??= setInterval(() => this.#dropIdle(), idleMs).unref();
    return account;
  }

  #keep(envelope: string, kept: Kept): CompiledScrubber {
    kept.usedAt = this.#now();
    this.#kept.delete(envelope);
    this.#kept.set(envelope, kept);
    return kept.scrubber;
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
    // Whoever has tables has an account.
    if (this.#capsules.size > 0) return;
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
