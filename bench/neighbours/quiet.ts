/** A request that the quiet tenant repeats at a rate far below its limits. */
export interface Habit {
  readonly name: string;
  readonly perSecond: number;
  /** Sends it once; rejects if it does not succeed. */
  once(): Promise<unknown>;
}

export interface Latencies {
  readonly ms: readonly number[];
  readonly failures: number;
}

/** A request that takes longer counts as failed. */
const LONGEST_MS = 30_000;

/** Runs all habits for this time. Each request is timed from when it was due, so that a service that stalls shows it. */
export async function measure(habits: readonly Habit[], seconds: number): Promise<readonly Latencies[]> {
  return Promise.all(habits.map((habit) => atItsRate(habit, seconds)));
}

async function atItsRate({ name, perSecond, once }: Habit, seconds: number): Promise<Latencies> {
  const total = Math.max(1, Math.round(perSecond * seconds));
  const ms: number[] = [];
  const all: Promise<void>[] = [];
  let failures = 0;
  const began = performance.now();
  for (let i = 0; i < total; i += 1) {
    const due = began + (i * 1_000) / perSecond;
    for (let left = due - performance.now(); left > 0; left = due - performance.now())
      await new Promise((resolve) => setTimeout(resolve, left));
    all.push(
      inTime(once()).then(
        () => void ms.push(performance.now() - due),
        (error: unknown) => {
          failures += 1;
          if (failures === 1) console.error(`${name}: ${error instanceof Error ? error.message : error}`);
          ms.push(Math.max(performance.now() - due, 0));
        },
      ),
    );
  }
  await Promise.all(all);
  return { ms, failures };
}

async function inTime(work: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error('there was no answer within 30 s')), LONGEST_MS);
  });
  await Promise.race([work, late]).finally(() => clearTimeout(timer));
}
