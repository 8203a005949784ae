import { RateLimit } from './limits.ts';
import type { Logger } from './log.ts';

interface LineRates {
  /** Lines of one kind that one tenant may cause at once, after a pause. */
  readonly burst: number;
  /** The same per second. */
  readonly perSecond: number;
  /** The longest time in milliseconds until it is logged how many lines were left out. */
  readonly tellMs?: number;
  readonly now?: () => number;
}

/** For requests: an Assistant that sends a few per second has a line for each. */
const RATES: LineRates = { burst: 1_000, perSecond: 50 };
const TELL_MS = 10_000;

type Level = 'debug' | 'info' | 'warn' | 'error';

interface LeftOut {
  readonly level: Level;
  readonly who: Readonly<Record<string, unknown>>;
  readonly event: string;
  lines: number;
}

/**
 * Bounds how many log lines one tenant can cause, so that none drives the lines about others out of a log, which is kept
 * up to a size. What is left out is counted in a line of its own. Audit entries are rows of the registries, never lines.
 */
export class LineBudget {
  readonly #log: Logger;
  readonly #rate: RateLimit;
  readonly #tellMs: number;
  readonly #leftOut = new Map<string, LeftOut>();
  #telling: NodeJS.Timeout | undefined;

  constructor(log: Logger, { tellMs = TELL_MS, ...rate }: LineRates = RATES) {
    this.#log = log;
    this.#rate = new RateLimit(rate);
    this.#tellMs = tellMs;
  }

  /** Whether a line may be written about this event, which `who` has caused. If not, it is only counted. */
  allows(level: Level, who: Readonly<Record<string, unknown>>, event: string): boolean {
    const key = `${level} ${event} ${JSON.stringify(who)}`;
    if (this.#rate.take(key) === undefined) return true;
    const known = this.#leftOut.get(key);
    if (known === undefined) this.#leftOut.set(key, { level, who, event, lines: 1 });
    else known.lines += 1;
    this.#telling ??= setTimeout(() => this.#tell(), this.#tellMs).unref();
    return false;
  }

  #tell(): void {
    this.#telling = undefined;
    for (const { level, who, event, lines } of this.#leftOut.values())
      this.#log[level]({ ...who, event, left_out: lines }, 'lines left out');
    this.#leftOut.clear();
  }
}
