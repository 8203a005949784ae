import type { Pace, Slices } from './slices.ts';

/**
 * The prefixes of all needles, each of which is a state; 0 is the empty one. The children of a state are a linked list.
 */
export interface Trie {
  readonly states: number;
  readonly letter: Uint8Array;
  readonly firstChild: Int32Array;
  readonly nextSibling: Int32Array;
  /**
   * The length of the needle that a state is, or 0. `rowsOf` changes it to the longest needle that the state ends with.
   */
  readonly longestEnd: Uint16Array;
}

export function* trieOf(
  needles: readonly Uint8Array[],
  letters: Uint8Array,
  total: number,
  pace: Pace,
): Slices<Trie> {
  const letter = new Uint8Array(total + 1);
  const firstChild = new Int32Array(total + 1);
  const nextSibling = new Int32Array(total + 1);
  const longestEnd = new Uint16Array(total + 1);
  let states = 1;
  for (const needle of needles) {
    let state = 0;
    for (const byte of needle) {
      if (pace.due) yield pace.rest();
      pace.steps += 1;
      const wanted = letters[byte] as number;
      let child = firstChild[state] as number;
      while (child !== 0 && letter[child] !== wanted) {
        child = nextSibling[child] as number;
        pace.steps += 1;
      }
      if (child === 0) {
        child = states;
        states += 1;
        letter[child] = wanted;
        nextSibling[child] = firstChild[state] as number;
        firstChild[state] = child;
      }
      state = child;
    }
    longestEnd[state] = needle.length;
  }
  return { states, letter, firstChild, nextSibling, longestEnd };
}

/**
 * The transitions of each state by letter, without those that equal the root's. They are few: the children, and for
 * each position in a needle about one further prefix (at most one for every other needle).
 */
export interface Rows {
  readonly start: Int32Array;
  readonly end: Int32Array;
  readonly letter: number[];
  readonly to: number[];
  /** The root's transitions, by letter. */
  readonly root: Int32Array;
}

/**
 * Creates the rows, shorter states first: each is the row of the state's longest proper suffix that is a state,
 * overridden by its own children.
 */
export function* rowsOf(
  { states, letter, firstChild, nextSibling, longestEnd }: Trie,
  pace: Pace,
): Slices<Rows> {
  const [start, end, fallback, queue] = [0, 1, 2, 3].map(() => new Int32Array(states)) as [
    Int32Array,
    Int32Array,
    Int32Array,
    Int32Array,
  ];
  const rows: Rows = { start, end, letter: [], to: [], root: new Int32Array(256) };
  /**
   * The transitions of the present state: those of the root, with the row's entries set before and reset afterwards.
   */
  const to = new Int32Array(256);
  let queued = 0;
  const visit = (parent: number, onward: (letter: number) => number): void => {
    for (let child = firstChild[parent] as number; child !== 0; child = nextSibling[child] as number) {
      const shorter = onward(letter[child] as number);
      fallback[child] = shorter;
      if (longestEnd[child] === 0) longestEnd[child] = longestEnd[shorter] as number;
      queue[queued] = child;
      queued += 1;
    }
  };
  visit(0, () => 0);
  for (let child = firstChild[0] as number; child !== 0; child = nextSibling[child] as number)
    rows.root[letter[child] as number] = child;
  to.set(rows.root);
  for (let taken = 0; taken < queued; taken += 1) {
    if (pace.due) yield pace.rest();
    const state = queue[taken] as number;
    const shorter = fallback[state] as number;
    const [from, until] = [start[shorter] as number, end[shorter] as number];
    for (let at = from; at < until; at += 1) to[rows.letter[at] as number] = rows.to[at] as number;
    visit(state, (own) => to[own] as number);
    start[state] = rows.letter.length;
    for (let child = firstChild[state] as number; child !== 0; child = nextSibling[child] as number) {
      rows.letter.push(letter[child] as number);
      rows.to.push(child);
      to[letter[child] as number] = 0;
    }
    for (let at = from; at < until; at += 1) {
      const own = rows.letter[at] as number;
      if (to[own] === 0) continue;
      rows.letter.push(own);
      rows.to.push(rows.to[at] as number);
    }
    end[state] = rows.letter.length;
    pace.steps += 1 + (rows.letter.length - (start[state] as number));
    for (let at = start[state] as number; at < rows.letter.length; at += 1) {
      const own = rows.letter[at] as number;
      to[own] = rows.root[own] as number;
    }
  }
  return rows;
}
