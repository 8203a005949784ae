/** A checker's result for events of real services: how many it checked, and the first that its model does not permit. */
export interface Conformance {
  readonly events: number;
  readonly wrong?: { readonly what: string; readonly trace: readonly string[] };
}

/** Counts events and stores the last ones of each subject, which show what led to a wrong one. */
export class Trace {
  readonly #last = new Map<string, string[]>();
  readonly #most: number;
  events = 0;
  wrong: Conformance['wrong'];

  constructor(most = 24) {
    this.#most = most;
  }

  /** Adds an event, and what is wrong with it. Only the first wrong one is stored, since later ones may follow from it. */
  saw(subject: string, event: string, wrong: string | undefined): void {
    this.events += 1;
    const last = this.#last.get(subject) ?? [];
    last.push(event);
    if (last.length > this.#most) last.shift();
    this.#last.set(subject, last);
    if (wrong !== undefined) this.wrong ??= { what: `${subject}: ${wrong}`, trace: [...last] };
  }

  get conformance(): Conformance {
    return this.wrong === undefined ? { events: this.events } : { events: this.events, wrong: this.wrong };
  }
}
