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

/** Bytes that were reserved for one write. Exactly one of its ends is called, once; later calls do nothing. */
export interface Reservation {
  /** The write is stored. */
  settle(): void;
  /** Nothing was stored, and nothing will be. */
  release(): void;
  /** Nobody knows, and after so many seconds it is certain: the bytes count until a count has looked that began later. */
  doubt(seconds: number): void;
  /** The bytes are a part of an open upload now, whose row counts them. */
  move(): Promise<void>;
}

/** How much a replica takes ahead, so that small writes need no word with the registry. */
const BLOCK = 64 * 1024 * 1024;
/** No more than this part of what is left is taken ahead: other replicas need room too. */
const SHARE = 16;

export interface BlockOptions {
  readonly registry: Registry;
  /** The name that this replica has its blocks under. */
  readonly replica: string;
  /** What the keys of the Capsule's objects begin with. */
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
  /** Bytes in doubt, by the seconds after which it will be certain whether they are stored. */
  readonly #doubted = new Map<number, number>();
  #isShort = false;
  /** Whether the last transaction ended without an answer: the row may be as before it, or as after it. */
  #isUnsure = false;
  #usedAt: number;
  /** Lets one transaction with the registry run at a time, so that the figures and the row agree. */
  #turn: Promise<unknown> = Promise.resolve();

  constructor(options: BlockOptions) {
    this.#options = options;
    this.#usedAt = options.now();
  }

  get bytes(): number {
    return this.#unspent + this.#inFlight + this.#spent + sumOf([...this.#doubted]);
  }

  /** Whether so little was left when bytes were last taken that what ends should stop counting at once. */
  get isShort(): boolean {
    return this.#isShort;
  }

  get isUnsure(): boolean {
    return this.#isUnsure;
  }

  isIdle(forMs: number): boolean {
    return this.#inFlight === 0 && this.#options.now() - this.#usedAt > forMs;
  }

  /** Undefined where fewer bytes are unspent. */
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

  /** Takes at least so many bytes from the registry, unless they are unspent by now; false where so many are not left. */
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
   * Tells the registry what was written, and gives back what is not needed any more: all that is unspent, or nothing.
   * False when the row is gone: another replica has adopted it, and its bytes are counted already.
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
