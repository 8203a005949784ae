import { ServiceError } from './errors.ts';

interface TurnsOptions {
  /** Milliseconds of processor time that one key may use in each second; unlimited by default. */
  readonly perSecondMs?: number;
  /** Milliseconds that a key can save up. */
  readonly burstMs?: number;
  /** After this many milliseconds in a row, other work of the process comes first. */
  readonly sliceMs?: number;
  /**
   * Milliseconds of processor time that this thread has used, however busy the machine is. Many kernels tell it in steps of
   * their tick, of 4 ms for example: they are right on average, and too long to end a slice by.
   */
  readonly used?: () => number;
  readonly now?: () => number;
  readonly onWork?: (ms: number) => void;
  readonly onRefusal?: () => void;
}

interface Budget {
  left: number;
  at: number;
}

interface Piece {
  readonly work: () => void;
  readonly owedMs: number;
}

const SLICE_MS = 0.5;

/**
 * Processor time for documents and bodies, shared between keys (Capsules). Keys take turns with pieces of work, a few
 * between two rounds of the event loop. A key that has used up its time, if there is a limit, is refused until it has
 * some again. So a key delays others by at most one piece, and a key with many documents waits for itself. A key that
 * is alone does not wait.
 */
export class Turns {
  readonly #options: Required<TurnsOptions>;
  readonly #lines = new Map<string, Piece[]>();
  readonly #budgets = new Map<string, Budget>();
  #pumping = false;

  constructor(options: TurnsOptions = {}) {
    this.#options = {
      perSecondMs: Number.POSITIVE_INFINITY,
      burstMs: Number.POSITIVE_INFINITY,
      sliceMs: SLICE_MS,
      used: threadMs,
      now: () => performance.now(),
      onWork: () => undefined,
      onRefusal: () => undefined,
      ...options,
    };
  }

  /** The number of pieces that wait. */
  get waiting(): number {
    let sum = 0;
    for (const line of this.#lines.values()) sum += line.length;
    return sum;
  }

  /**
   * Runs a piece of work in the key's turn. `owedMs` are milliseconds that the key has used for it already, in nobody's turn:
   * they count for the slice, so that a piece that was costly to receive is the last one of its round.
   * @throws ServiceError `rate_limited` if the key has no time left
   */
  run<T>(key: string, act: () => T, owedMs = 0): Promise<T> {
    return new Promise((resolve, reject) => {
      const line = this.#lines.get(key) ?? [];
      if (line.length === 0) this.#lines.set(key, line);
      const work = () => {
        try {
          resolve(this.#charged(key, act));
        } catch (error) {
          reject(error);
        }
      };
      line.push({ work, owedMs });
      this.#pump();
    });
  }

  #charged<T>(key: string, act: () => T): T {
    const { used, burstMs, onWork } = this.#options;
    if (burstMs === Number.POSITIVE_INFINITY) return act();
    const budget = this.#budget(key);
    if (budget.left <= 0) throw this.#refuse(budget);
    const before = used();
    try {
      return act();
    } finally {
      const spent = used() - before;
      budget.left -= spent;
      onWork(spent);
    }
  }

  #refuse({ left }: Budget): ServiceError {
    const { perSecondMs, onRefusal } = this.#options;
    onRefusal();
    return new ServiceError('rate_limited', 'documents used too much processor time', {
      retryAfter: Math.max(1, Math.ceil(-left / perSecondMs)),
    });
  }

  #budget(key: string): Budget {
    const { now, burstMs, perSecondMs } = this.#options;
    const at = now();
    const filled = ({ left, at: since }: Budget) =>
      Math.min(burstMs, left + ((at - since) / 1_000) * perSecondMs);
    if (this.#budgets.size > 1_000)
      for (const [name, one] of this.#budgets) if (filled(one) >= burstMs) this.#budgets.delete(name);
    const budget = this.#budgets.get(key) ?? { left: burstMs, at };
    this.#budgets.set(key, budget);
    budget.left = filled(budget);
    budget.at = at;
    return budget;
  }

  #pump(): void {
    if (this.#pumping || this.#lines.size === 0) return;
    this.#pumping = true;
    setImmediate(() => {
      this.#pumping = false;
      this.#round();
      this.#pump();
    });
  }

  /** Runs a piece for each key in turn, until the time of the round is used up. */
  #round(): void {
    const { now, sliceMs } = this.#options;
    const begun = now();
    let owed = 0;
    do {
      const [next] = this.#lines;
      if (next === undefined) return;
      const [key, line] = next;
      const piece = line.shift();
      this.#lines.delete(key);
      // The key goes to the end of the turns.
      if (line.length > 0) this.#lines.set(key, line);
      owed += piece?.owedMs ?? 0;
      piece?.work();
    } while (now() - begun + owed < sliceMs);
  }
}

function threadMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}
