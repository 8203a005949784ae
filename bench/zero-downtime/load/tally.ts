/** The results of the requests of one kind in one second. */
interface Tally {
  ok: number;
  failed: number;
  /** The longest time in milliseconds. */
  longestMs: number;
  /** The number of failures by error. */
  readonly errors: Record<string, number>;
}

export interface Tallies {
  saw(kind: string, ms: number, error?: unknown): void;
  /** Returns all results since the last call. */
  take(): ReadonlyMap<string, Tally>;
  /** Adds results again that could not be stored. */
  giveBack(all: ReadonlyMap<string, Tally>): void;
}

export function createTallies(): Tallies {
  let kept = new Map<string, Tally>();
  const of = (kind: string): Tally => {
    const found = kept.get(kind) ?? { ok: 0, failed: 0, longestMs: 0, errors: {} };
    kept.set(kind, found);
    return found;
  };
  return {
    saw(kind, ms, error) {
      const tally = of(kind);
      tally.longestMs = Math.max(tally.longestMs, ms);
      if (error === undefined) tally.ok += 1;
      else {
        tally.failed += 1;
        const how = wayOf(error);
        tally.errors[how] = (tally.errors[how] ?? 0) + 1;
      }
    },
    take() {
      const taken = kept;
      kept = new Map();
      return taken;
    },
    giveBack(all) {
      for (const [kind, { ok, failed, longestMs, errors }] of all) {
        const tally = of(kind);
        tally.ok += ok;
        tally.failed += failed;
        tally.longestMs = Math.max(tally.longestMs, longestMs);
        for (const [how, count] of Object.entries(errors))
          tally.errors[how] = (tally.errors[how] ?? 0) + count;
      }
    },
  };
}

function wayOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { cause } = error;
  const inner = cause instanceof Error ? cause : error;
  const code = 'code' in inner ? String(inner.code) : '';
  return `${code} ${inner.message}`.trim().slice(0, 120);
}
