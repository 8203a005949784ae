import { setTimeout as wait } from 'node:timers/promises';

/** What one try came to. */
export type Attempt<T> =
  | { readonly value: T }
  | { readonly refused: Refusal }
  /** The connection to the broker ended before the answer did. */
  | { readonly cut: string };

export interface Refusal {
  readonly status: number;
  readonly code: string;
  /** Seconds; undefined where the answer does not say. */
  readonly retryAfter: number | undefined;
  /** Said within an answer that had begun with 200, as S3 itself does for what takes long. */
  readonly late?: boolean;
}

export type Kind = 'writes' | 'reads' | 'credentials';

export const PAUSE_MS = 100;
/** After which something is broken that no node that comes back will mend. */
export const LIMIT_MS = 300_000;
/** Of the JSON routes, and of S3. */
const FAILED = ['upstream_failed', 'upstream_timeout', 'InternalError'];

/** What a deletion of several keys is called that says which of them failed. */
export const FAILED_KEYS = 'failed keys';

/** A refusal that docs/wire/objectstore-data.md has for a server behind the broker that fails. */
export function isDocumented({ status, code, retryAfter, late = false }: Refusal): boolean {
  if (late) return ['InternalError', 'ServiceUnavailable', FAILED_KEYS].includes(code);
  if (status === 503) return retryAfter !== undefined && retryAfter > 0 && code !== 'custody_rollback';
  return (status === 502 || status === 504) && FAILED.includes(code);
}

/** Asks until there is a good answer, and keeps when there was one, and what else there was. */
export class Watch {
  /** By `performance.now()`. */
  readonly at: Readonly<Record<Kind, number[]>> = { writes: [], reads: [], credentials: [] };
  /** By status and code. */
  readonly refusals = new Map<string, number>();
  readonly problems: string[] = [];
  cutReads = 0;
  /** Uploads in parts that a server did not know any more. */
  uploadsGone = 0;
  /** The longest that anybody asked for one thing. */
  #slowest = 0;

  /** The longest wait of one caller for one thing since it was last asked. */
  takeSlowest(): number {
    const slowest = this.#slowest;
    this.#slowest = 0;
    return slowest;
  }

  async insist<T>(
    kind: Kind,
    what: string,
    ask: () => Promise<Attempt<T>>,
  ): Promise<{ readonly value: T; readonly tries: number }> {
    const begun = performance.now();
    for (let tries = 1; ; tries += 1) {
      const tried = await ask();
      const now = performance.now();
      if ('value' in tried) {
        this.at[kind].push(now);
        this.#slowest = Math.max(this.#slowest, now - begun);
        return { value: tried.value, tries };
      }
      this.#judge(kind, what, tried);
      if (now - begun > LIMIT_MS) throw new Error(`${what}: no good answer for ${LIMIT_MS / 1_000} s`);
      await wait(PAUSE_MS);
    }
  }

  #judge(kind: Kind, what: string, tried: { readonly refused: Refusal } | { readonly cut: string }): void {
    if ('cut' in tried) {
      // What was begun with 200 cannot be refused any more.
      if (kind === 'reads') this.cutReads += 1;
      else this.problems.push(`${what}: no answer: ${tried.cut}`);
      return;
    }
    const { status, code, retryAfter } = tried.refused;
    const name = `${status} ${code}`;
    this.refusals.set(name, (this.refusals.get(name) ?? 0) + 1);
    if (!isDocumented(tried.refused))
      this.problems.push(`${what}: refused with ${name}, Retry-After ${retryAfter}`);
  }
}

/** The longest time without an answer since then, until now. */
export function longestGap(times: readonly number[], since: number, now = performance.now()): number {
  const from = [...times.filter((at) => at >= since && at <= now), now];
  return Math.max(...from.map((at, i) => at - (from[i - 1] ?? since)));
}
