/**
 * Visits every reachable state, breadth first, so that it reports a shortest trace. States are distinguished by a 64-bit hash of
 * their key: among ten million states, the chance that two have the same hash is 3 in a million.
 */

export interface Step<State> {
  readonly label: string;
  readonly to: State;
  /** What is wrong with this step, if anything. */
  readonly wrong?: string | undefined;
}

export interface Space<State> {
  readonly initial: State;
  /** Every possible next step, always in the same order. */
  next(state: State): readonly Step<State>[];
  /** Equal for two states that cannot be distinguished. */
  key(state: State): string;
  /** What is wrong with a new state, apart from the step that led to it. */
  judge?(state: State): string | undefined;
}

export interface Explored {
  readonly states: number;
  readonly steps: number;
  /** Whether all states within the bounds of the model were visited. */
  readonly exhausted: boolean;
  /** The number of steps to the most distant state. */
  readonly depth: number;
  /** The first violation, and the steps that lead to it. */
  readonly wrong?: { readonly what: string; readonly trace: readonly string[] };
}

export function explore<State>(space: Space<State>, most: number): Explored {
  const seen = new Seen();
  seen.add(space.key(space.initial));
  const parents = [-1];
  const choices = [0];
  let [frontier, steps, depth] = [[{ state: space.initial, at: 0 }], 0, 0];
  const found = (what: string, at: number, label: string): Explored => {
    const trace = [...replay(space, parents, choices, at), label];
    return { states: seen.size, steps, depth, exhausted: false, wrong: { what, trace } };
  };
  while (frontier.length > 0) {
    const later: typeof frontier = [];
    depth += 1;
    for (const { state, at } of frontier) {
      for (const [choice, { label, to, wrong }] of space.next(state).entries()) {
        steps += 1;
        if (wrong !== undefined) return found(wrong, at, label);
        if (!seen.add(space.key(to))) continue;
        const amiss = space.judge?.(to);
        if (amiss !== undefined) return found(amiss, at, label);
        later.push({ state: to, at: parents.length });
        parents.push(at);
        choices.push(choice);
        if (seen.size >= most) return { states: seen.size, steps, depth, exhausted: false };
      }
    }
    frontier = later;
  }
  return { states: seen.size, steps, depth, exhausted: true };
}

function replay<State>(
  space: Space<State>,
  parents: readonly number[],
  choices: readonly number[],
  last: number,
): string[] {
  const taken: number[] = [];
  for (let at = last; at > 0; at = parents[at] ?? 0) taken.unshift(choices[at] ?? 0);
  const labels: string[] = [];
  let state = space.initial;
  for (const choice of taken) {
    const step = space.next(state)[choice];
    if (step === undefined) throw new Error('the steps of a state are not always the same');
    labels.push(step.label);
    state = step.to;
  }
  return labels;
}

/** A set of hashes as pairs of words, since the keys of millions of states would not fit into memory. */
export class Seen {
  #table = new Uint32Array(2 << 16);
  /** The hash of the last key, as two words. */
  #first = 0;
  #second = 0;
  size = 0;

  /** Adds a key; returns whether it is new. */
  add(key: string): boolean {
    if (this.size * 4 > this.#table.length) this.#grow();
    this.#hash(key);
    const added = this.#put(this.#first, this.#second);
    if (added) this.size += 1;
    return added;
  }

  has(key: string): boolean {
    this.#hash(key);
    return this.#table[this.#place(this.#first, this.#second)] !== 0;
  }

  /** cyrb64, whose two words are independent. */
  #hash(key: string): void {
    let a = 0xdeadbeef;
    let b = 0x41c6ce57;
    for (let at = 0; at < key.length; at += 1) {
      const code = key.charCodeAt(at);
      a = Math.imul(a ^ code, 2654435761);
      b = Math.imul(b ^ code, 1597334677);
    }
    a = Math.imul(a ^ (a >>> 16), 2246822507) ^ Math.imul(b ^ (b >>> 13), 3266489909);
    b = Math.imul(b ^ (b >>> 16), 2246822507) ^ Math.imul(a ^ (a >>> 13), 3266489909);
    this.#first = a >>> 0 || 1;
    this.#second = b >>> 0;
  }

  /** The position of the hash, or of a free place for it, whose first word is 0. */
  #place(first: number, second: number): number {
    const table = this.#table;
    const mask = table.length - 1;
    for (let at = (second * 2) & mask; ; at = (at + 2) & mask)
      if (table[at] === 0 || (table[at] === first && table[at + 1] === second)) return at;
  }

  #put(first: number, second: number): boolean {
    const at = this.#place(first, second);
    if (this.#table[at] !== 0) return false;
    this.#table[at] = first;
    this.#table[at + 1] = second;
    return true;
  }

  #grow(): void {
    const before = this.#table;
    this.#table = new Uint32Array(before.length * 2);
    for (let at = 0; at < before.length; at += 2)
      if (before[at] !== 0) this.#put(before[at] ?? 0, before[at + 1] ?? 0);
  }
}
