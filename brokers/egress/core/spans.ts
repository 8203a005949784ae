type Span = [start: number, end: number];

/**
 * Ranges of a text, in order and apart. A range that is added ends behind all others and is merged with those that it
 * touches; ranges are taken from the front. Both take constant time, amortised.
 */
export class Spans {
  readonly #spans: Span[] = [];
  /** The index of the first range that was not taken. */
  #first = 0;

  get none(): boolean {
    return this.#first === this.#spans.length;
  }

  add(start: number, end: number): void {
    while (!this.none) {
      const last = this.#spans[this.#spans.length - 1] as Span;
      if (last[1] < start) break;
      if (last[0] <= start) {
        last[1] = end;
        return;
      }
      this.#spans.pop();
    }
    this.#spans.push([start, end]);
  }

  /** Calls `visit` for the ranges before a position, and removes them. */
  takeTo(position: number, visit: (start: number, end: number) => void): void {
    for (; !this.none; this.#first += 1) {
      const [start, end] = this.#spans[this.#first] as Span;
      if (start >= position) break;
      visit(start, Math.min(end, position));
      if (end <= position) continue;
      (this.#spans[this.#first] as Span)[0] = position;
      break;
    }
    if (this.#first * 2 < this.#spans.length) return;
    this.#spans.splice(0, this.#first);
    this.#first = 0;
  }
}
