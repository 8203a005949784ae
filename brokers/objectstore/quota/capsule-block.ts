import type { Session } from '@space/broker-kit/postgres';
import {
  addDoubt,
  addWritten,
  isShort,
  lockUsage,
  putBlock,
  type Registry,
  shrinkBlock,
  usedBytes,
} from './rows.ts';

/** Bytes that are reserved for one write. One of its methods is called once; later calls have no effect. */
export interface Reservation {
  /** The write is stored. */
  settle(): void;
  /** The write is not stored, and will not be. */
  release(): void;
  /** The outcome is unknown for so many seconds; the bytes count until a count that began later. */
  doubt(seconds: number): void;
  /** The bytes belong to an open upload now, whose row counts them. */
  move(): Promise<void>;
}

/** Bytes that a replica reserves in advance, so that small writes need no transaction. */
const BLOCK = 64 * 1024 * 1024;
/** At most this fraction of the rest is reserved in advance, since other replicas need some, too. */
const SHARE = 16;

export interface BlockOptions {
  readonly registry: Registry;
  /** The name of this replica's blocks. */
  readonly replica: string;
  /** The prefix of the Capsule's objects. */
  readonly capsulePrefix: string;
  readonly onDoubted: () => void;
  readonly now: () => number;
}

/**
 * What this replica has taken ahead of one Capsule's quota; the bytes of its row are the sum of the four figures. Each
 * transaction sets them to that sum, so that the next one mends what became of one whose end nobody learned.
 */
export class CapsuleBlock {
  readonly #options: BlockOptions;
  #unspent = 0;
  #inFlight = 0;
  #spent = 0;
  /** Bytes with an unknown outcome, by the seconds until it is certain. */
  readonly #doubted = new Map<number, number>();
  #isShort = false;
  /** Whether the last transaction ended without an answer: the row may be as before it, or as after it. */
  #isUnsure = false;
  #usedAt: number;
  /** Runs one transaction at a time, so that the numbers and the row agree. */
  #turn: Promise<unknown> = Promise.resolve();

  constructor(options: BlockOptions) {
    this.#options = options;
    this.#usedAt = options.now();
  }

  get bytes(): number {
    return this.#unspent + this.#inFlight + this.#spent + sumOf([...this.#doubted]);
  }

  /** Whether so little was left at the last reservation that deleted objects should stop counting at once. */
  get isShort(): boolean {
    return this.#isShort;
  }

  get isUnsure(): boolean {
    return this.#isUnsure;
  }

  isIdle(forMs: number): boolean {
    return this.#inFlight === 0 && this.#options.now() - this.#usedAt > forMs;
  }

  /** Undefined if fewer bytes are unused. */
  reserve(bytes: number): Reservation | undefined {
    this.#usedAt = this.#options.now();
    if (this.#unspent < bytes) return undefined;
    this.#unspent -= bytes;
    this.#inFlight += bytes;
    let isOpen = true;
    const end = (act: () => void) => {
      if (!isOpen) return;
      isOpen = false;
      this.#inFlight -= bytes;
      this.#usedAt = this.#options.now();
      act();
    };
    return {
      settle: () =>
        end(() => {
          this.#spent += bytes;
        }),
      release: () =>
        end(() => {
          this.#unspent += bytes;
        }),
      doubt: (seconds) =>
        end(() => {
          this.#options.onDoubted();
          this.#doubted.set(seconds, (this.#doubted.get(seconds) ?? 0) + bytes);
        }),
      move: async () => {
        if (!isOpen) return;
        await this.#inTurn(async () => {
          await this.#shrink(bytes);
          end(() => undefined);
        });
      },
    };
  }

  /** Reserves at least so many bytes in the registry, unless they are unused already; false if they are not left. */
  take(quotaBytes: number, bytes: number): Promise<boolean> {
    return this.#inTurn(async () => {
      if (this.#unspent >= bytes) return true;
      const { replica, capsulePrefix } = this.#options;
      const spent = this.#spent;
      const need = bytes - this.#unspent;
      const granted = await this.#change(async (session) => {
        if (this.#isUnsure) await putBlock(session, capsulePrefix, replica, this.bytes);
        const left = quotaBytes - (await usedBytes(session, capsulePrefix));
        this.#isShort = isShort(quotaBytes, left - need, bytes);
        if (left < need) return undefined;
        const grant = Math.min(left, need + Math.min(BLOCK, Math.floor((left - need) / SHARE)));
        await addWritten(session, capsulePrefix, spent);
        await putBlock(session, capsulePrefix, replica, this.bytes + grant - spent);
        return grant;
      });
      if (granted === undefined) return false;
      this.#unspent += granted;
      this.#spent -= spent;
      return true;
    });
  }

  /**
   * Stores in the registry what was written, and with `giveBack` also returns everything unused. False if the row is
   * gone, since another replica has adopted it and counts its bytes already.
   */
  flush({ giveBack = false } = {}): Promise<boolean> {
    // Not to be had again where it fails, since it may have been given back: then the next flush sees to it.
    const back = giveBack ? this.#unspent : 0;
    this.#unspent -= back;
    return this.#inTurn(async () => {
      const spent = this.#spent;
      const doubted = [...this.#doubted];
      if (spent + sumOf(doubted) + back === 0 && !this.#isUnsure) return true;
      if (!(await this.#tell(spent, doubted))) return false;
      this.#spent -= spent;
      for (const [seconds, bytes] of doubted) {
        const left = (this.#doubted.get(seconds) ?? 0) - bytes;
        if (left > 0) this.#doubted.set(seconds, left);
        else this.#doubted.delete(seconds);
      }
      return true;
    });
  }

  #tell(spent: number, doubted: readonly Doubted[]): Promise<boolean> {
    const { replica, capsulePrefix } = this.#options;
    return this.#change(async (session) => {
      const left = this.bytes - spent - sumOf(doubted);
      // A row that ended in a transaction without an answer ended with all of this told.
      if (!(await shrinkBlock(session, capsulePrefix, replica, left))) return this.#isUnsure && left === 0;
      await addWritten(session, capsulePrefix, spent);
      for (const [seconds, bytes] of doubted) await addDoubt(session, capsulePrefix, bytes, seconds);
      return true;
    });
  }

  async #shrink(bytes: number): Promise<void> {
    const { replica, capsulePrefix } = this.#options;
    await this.#change((session) => shrinkBlock(session, capsulePrefix, replica, this.bytes - bytes));
  }

  /** Runs one transaction about the row, whose end may remain unknown. */
  async #change<T>(work: (session: Session) => Promise<T>): Promise<T> {
    const { registry, capsulePrefix } = this.#options;
    try {
      const result = await registry.transaction(async (session) => {
        await lockUsage(session, capsulePrefix);
        return work(session);
      });
      this.#isUnsure = false;
      return result;
    } catch (error) {
      this.#isUnsure = true;
      throw error;
    }
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const next = this.#turn.then(work, work);
    this.#turn = next.catch(() => undefined);
    return next;
  }
}

type Doubted = readonly [seconds: number, bytes: number];

function sumOf(doubted: readonly Doubted[]): number {
  return doubted.reduce((sum, [, bytes]) => sum + bytes, 0);
}
