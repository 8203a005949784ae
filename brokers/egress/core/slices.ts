/** Work that is done in slices: it yields the number of steps of each slice, and returns its result. */
export type Slices<T> = Generator<number, T, void>;

/** The steps of one slice, which take a millisecond or two. A step is one or a few table look-ups. */
export const SLICE = 32_768;

/** Counts the steps of one piece of work: `if (pace.due) yield pace.rest();` between any two of its loops. */
export class Pace {
  steps = 0;

  get due(): boolean {
    return this.steps >= SLICE;
  }

  rest(): number {
    const { steps } = this;
    this.steps = 0;
    return steps;
  }
}

/** Runs all slices at once. */
export function atOnce<T>(slices: Slices<T>): T {
  for (;;) {
    const { done, value } = slices.next();
    if (done) return value;
  }
}
