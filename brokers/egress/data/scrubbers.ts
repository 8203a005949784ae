import type { Turns } from '@space/broker-kit';
import { Problem } from '../core/problem.ts';
import { type CompiledScrubber, prepareScrubber } from '../core/scrub.ts';
import type { Slices } from '../core/slices.ts';
import { alphabetOf, type Slot, secretsIn } from '../core/slot.ts';

const MIB = 1024 * 1024;

/** How much of the machine the tables of scrubbers may take. */
export interface ScrubberLimits {
  readonly bytes: number;
  /** Of one Capsule. */
  readonly capsuleBytes: number;
  /** Of tables that one Capsule may have made at once, and then each second. A MiB takes some 50 ms. */
  readonly burstBytes: number;
  readonly bytesPerSecond: number;
  /** How long tables are kept that nobody uses: they know a value, if not in clear. */
  readonly idleMs: number;
}

/** Of the 384 MiB that the chart gives a replica. Tables of the longest values take some 6 MiB, of usual ones 10 KiB. */
const LIMITS: ScrubberLimits = {
  bytes: 48 * MIB,
  capsuleBytes: 12 * MIB,
  // Two of the longest.
  burstBytes: 12 * MIB,
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

/** What a Capsule has, and what it may have made. */
interface Account {
  bytes: number;
  budget: number;
  at: number;
}

/**
 * The scrubbers of values in use: made once, and used by all requests with the value. Longest unused ones go when there
 * are too many, and those of a Capsule that has more than its share before all others.
 */
export class Scrubbers {
  readonly #limits: ScrubberLimits;
  readonly #turns: Pick<Turns, 'run'>;
  readonly #now: () => number;
  /** By envelope, those used last at the end. */
  readonly #kept = new Map<string, Kept>();
  readonly #capsules = new Map<string, Account>();
  /** By envelope, what takes more than a slice; and the last of them, which the next one waits for. */
  readonly #making = new Map<string, Promise<CompiledScrubber>>();
  #line = Promise.resolve();
  #bytes = 0;
  #sweep: NodeJS.Timeout | undefined;

  constructor(
    turns: Pick<Turns, 'run'>,
    limits: Partial<ScrubberLimits> = {},
    now: () => number = () => performance.now(),
  ) {
    this.#turns = turns;
    this.#limits = { ...LIMITS, ...limits };
    this.#now = now;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /**
   * A usual value takes one slice. One that takes more is begun anew in a line, one after the other and each slice in its
   * Capsule's turn: so what waits holds nothing, and what is made keeps nobody from the processor.
   * @throws Problem `rate_limited` when a Capsule has others made too often
   */
  async of(about: About, reveal: () => string): Promise<CompiledScrubber> {
    const { envelope } = about;
    const kept = this.#kept.get(envelope);
    if (kept !== undefined) return this.#keep(envelope, kept);
    const making = this.#making.get(envelope);
    if (making !== undefined) return making;
    const { done, value } = this.#begin(about, reveal).next();
    if (done) return this.#made(about, value);
    const made = this.#makeInLine(about, reveal).finally(() => this.#making.delete(envelope));
    this.#making.set(envelope, made);
    return made;
  }

  async #makeInLine(about: About, reveal: () => string): Promise<CompiledScrubber> {
    const before = this.#line;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#line = promise;
    await before;
    try {
      const slices = this.#begin(about, reveal);
      for (;;) {
        const { done, value } = await this.#turns.run(about.owner.capsule, () => slices.next());
        if (done) return this.#made(about, value);
      }
    } finally {
      resolve();
    }
  }

  #begin({ owner, slot }: About, reveal: () => string): Slices<CompiledScrubber> {
    const { budget } = this.#account(owner.capsule);
    if (budget <= 0)
      throw new Problem('rate_limited', { retryAfter: Math.ceil(1 - budget / this.#limits.bytesPerSecond) });
    return prepareScrubber(secretsIn(slot, reveal()), alphabetOf(slot));
  }

  #made({ owner: { capsule }, envelope }: About, scrubber: CompiledScrubber): CompiledScrubber {
    const account = this.#account(capsule);
    account.budget -= scrubber.bytes;
    account.bytes += scrubber.bytes;
    this.#bytes += scrubber.bytes;
    this.#dropUntil(() => account.bytes <= this.#limits.capsuleBytes, capsule);
    this.#dropUntil(() => this.#bytes <= this.#limits.bytes);
    return this.#keep(envelope, { scrubber, capsule, usedAt: 0 });
  }

  #account(capsule: string): Account {
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
