import { setTimeout as wait } from 'node:timers/promises';

export interface EventuallyOptions {
  readonly what: string;
  readonly within?: number;
}

/** Repeats the call until its result is truthy, and returns that. An error counts as not yet; the last one is reported at the end. */
export async function eventually<T>(
  ask: () => T | Promise<T>,
  { what, within = 240_000 }: EventuallyOptions,
): Promise<NonNullable<Exclude<T, false>>> {
  const until = performance.now() + within;
  let last: unknown;
  for (;;) {
    try {
      last = await ask();
      if (last) return last as NonNullable<Exclude<T, false>>;
    } catch (error) {
      last = error;
    }
    if (performance.now() > until) {
      const seen = last instanceof Error ? last.message : JSON.stringify(last);
      throw new Error(`not within ${within / 1000} s: ${what}; last seen: ${seen}`, { cause: last });
    }
    await wait(40);
  }
}
