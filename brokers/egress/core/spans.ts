type Span = [start: number, end: number];

/**
 * Places of a text that are apart and in their order. Each that is added ends behind all others and takes in those that
 * it touches; each is taken from the front once. So however many there are, none costs more than these two looks.
 */
export class Spans {
  readonly #spans: Span[] = [];
  /** Those before it have been taken. */
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

  /** Tells what is before a place, and forgets it. */
  takeTo(place: number, tell: (start: number, end: number) => void): void {
    for (; !this.none; this.#first += 1) {
      const [start, end] = this.#spans[this.#first] as Span;
      if (start >= place) break;
      tell(start, Math.min(end, place));
      if (end <= place) continue;
      (this.#spans[this.#first] as Span)[0] = place;
      break;
    }
    if (this.#first * 2 < this.#spans.length) return;
    this.#spans.splice(0, this.#first);
    this.#first = 0;
  }
}
