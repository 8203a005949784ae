import type { Rows, Trie } from './automaton.ts';
import type { Pace, Slices } from './slices.ts';

/**
 * All rows in one array, overlaid where one has gaps: a state is the position at which its row begins, and no two begin
 * at the same. So an entry belongs to a state if it has the letter whose offset leads to it from the state.
 */
export interface Rowed {
  /** The root's transitions by letter. */
  readonly fromRoot: Int32Array;
  /** The letter of each entry. */
  readonly letterAt: Uint8Array;
  readonly nextAt: Int32Array;
  /** For each state, the length of the longest needle that ends there. */
  readonly longestEnd: Uint16Array;
}

/** After this many failed positions for a row, the first of them is no longer tried, since it has no room left. */
const TRIES = 16;

export function* tablesOf(rows: Rows, trie: Trie, pace: Pace): Slices<Rowed> {
  const { states } = trie;
  const place = new Int32Array(states);
  let letterAt = new Uint8Array(2 * rows.letter.length + ROOM);
  let isState = new Uint8Array(letterAt.length);
  isState[0] = 1;
  let free = 1;
  let last = 0;
  for (let state = 1; state < states; state += 1) {
    if (pace.due) yield pace.rest();
    const [from, until] = [rows.start[state] as number, rows.end[state] as number];
    const full = free;
    while (letterAt[free] !== 0) free += 1;
    const first = Math.max(1, free - (until > from ? (rows.letter[from] as number) : 0));
    let base = first;
    while (isState[base] === 1 || !hasRoom(letterAt, base, rows.letter, from, until)) base += 1;
    pace.steps += 1 + free - full + base - first + until - from;
    free += Math.max(0, base - first - TRIES);
    last = Math.max(last, base);
    if (last + ROOM > letterAt.length) [letterAt, isState] = [doubled(letterAt), doubled(isState)];
    place[state] = base;
    isState[base] = 1;
    for (let at = from; at < until; at += 1) {
      const letter = rows.letter[at] as number;
      letterAt[base + letter] = letter;
    }
  }
  const places = last + ROOM;
  const nextAt = new Int32Array(places);
  const longestEnd = new Uint16Array(places);
  for (let state = 1; state < states; state += 1) {
    if (pace.due) yield pace.rest();
    pace.steps += 1 + (rows.end[state] as number) - (rows.start[state] as number);
    const base = place[state] as number;
    longestEnd[base] = trie.longestEnd[state] as number;
    for (let at = rows.start[state] as number; at < (rows.end[state] as number); at += 1)
      nextAt[base + (rows.letter[at] as number)] = place[rows.to[at] as number] as number;
  }
  const fromRoot = rows.root.map((state) => place[state] as number);
  return { fromRoot, letterAt: letterAt.slice(0, places), nextAt, longestEnd };
}

/** After the last state there is an entry for each letter. */
const ROOM = 512;

function hasRoom(
  letterAt: Uint8Array,
  base: number,
  letters: readonly number[],
  from: number,
  until: number,
): boolean {
  for (let at = from; at < until; at += 1) if (letterAt[base + (letters[at] as number)] !== 0) return false;
  return true;
}

function doubled(bytes: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  const more = new Uint8Array(2 * bytes.length);
  more.set(bytes);
  return more;
}
