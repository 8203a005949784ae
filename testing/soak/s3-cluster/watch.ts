import { setTimeout as wait } from 'node:timers/promises';

/** The result of one attempt. */
export type Attempt<T> =
  | { readonly value: T }
  | { readonly refused: Refusal }
  /** The connection to the broker ended before the answer did. */
  | { readonly cut: string };

export interface Refusal {
  readonly status: number;
  readonly code: string;
  /** Seconds; undefined if the answer has no such header. */
  readonly retryAfter: number | undefined;
  /** Whether the error came within an answer that began with 200, as S3 does for long operations. */
  readonly late?: boolean;
}

export type Kind = 'writes' | 'reads' | 'credentials';

export const PAUSE_MS = 100;
/** After this time, a failure is not caused by a node that is down. */
export const LIMIT_MS = 300_000;
/** Codes of the JSON routes and of S3. */
const FAILED = ['upstream_failed', 'upstream_timeout', 'InternalError'];

/** The name for an answer to a bulk deletion in which some keys failed. */
export const FAILED_KEYS = 'failed keys';

/** Whether docs/wire/objectstore-data.md documents this refusal for a failing server behind the broker. */
export function isDocumented({ status, code, retryAfter, late = false }: Refusal): boolean {
  if (late) return ['InternalError', 'ServiceUnavailable', FAILED_KEYS].includes(code);
  if (status === 503) return retryAfter !== undefined && retryAfter > 0 && code !== 'custody_rollback';
  return (status === 502 || status === 504) && FAILED.includes(code);
}

/** Repeats requests until they succeed, and records the times of good answers, and all other answers. */
export class Watch {
  /** Times of good answers by `performance.now()`. */
  readonly at: Readonly<Record<Kind, number[]>> = { writes: [], reads: [], credentials: [] };
  /** The number of refusals by status and code. */
  readonly refusals = new Map<string, number>();
  readonly problems: string[] = [];
  cutReads = 0;
  /** The number of multipart uploads that a server lost. */
  uploadsGone = 0;
  /** The longest time that a caller needed for one operation. */
  #slowest = 0;

  /** Returns the longest such time since the last call. */
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
      // An answer that began with 200 cannot be refused any more.
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

/** The longest time without an answer from `since` until now. */
export function longestGap(times: readonly number[], since: number, now = performance.now()): number {
  const from = [...times.filter((at) => at >= since && at <= now), now];
  return Math.max(...from.map((at, i) => at - (from[i - 1] ?? since)));
}
