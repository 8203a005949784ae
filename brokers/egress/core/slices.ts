/** Work that can be done in slices, of the steps that each yield tells; what comes of it is returned. */
export type Slices<T> = Generator<number, T, void>;

/** A step is a look at a table, or a few that go together. So many take a millisecond or two. */
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

/** All slices at once. */
export function atOnce<T>(slices: Slices<T>): T {
  for (;;) {
    const { done, value } = slices.next();
    if (done) return value;
  }
}
