import { randomFillSync } from 'node:crypto';

/** Finds every occurrence of any of several needles in a text that comes in pieces, by Aho and Corasick's automaton. */
export interface Search {
  /** Of its tables, which live as long as it does. */
  readonly bytes: number;
  begin(): Scan;
}

/** Called for an occurrence, which may begin before the piece (then `start` is negative) and ends in it. */
export type Found = (start: number, end: number) => void;

interface Scan {
  /**
   * Goes on with the next piece. Of the occurrences that end at one place the longest is told, which covers the others;
   * ends only ever grow.
   */
  push(piece: Uint8Array, found: Found): void;
}

/**
 * Prepares a search over needles of bytes. Each byte of a text costs the same looks at the same tables and no branch,
 * however much of a needle stands before it: who has texts of their own searched could tell the needle by the time
 * otherwise, one byte after the other. `watch` lets a test count the looks.
 */
export function compileSearch(
  needles: readonly Uint8Array[],
  watch: (tables: Tables) => Tables = (tables) => tables,
): Search {
  const total = needles.reduce((sum, { length }) => sum + length, 0);
  if (needles.length === 0 || needles.some(({ length }) => length === 0 || length > 0xffff))
    throw new Error('nothing to search for');
  const own = lettersIn(needles);
  const trie = trieOf(needles, own, total);
  const tables: Tables = { letters: own, ...tablesOf(rowsOf(trie), trie) };
  const bytes = Object.values(tables).reduce((sum, table: Uint8Array) => sum + table.byteLength, 0);
  const { letters, fromRoot, letterAt, nextAt, longestEnd } = watch(tables);

  const begin = (): Scan => {
    let stateBefore = 0;
    return {
      push(piece, found) {
        const { length } = piece;
        // Of this call alone: what a closure shares is far from the processor's registers.
        let state = stateBefore;
        let at = 0;
        while (at < length) {
          let ended = 0;
          // Calls nobody, so that all tables stay in registers: it takes less than half of the time.
          while (at < length && ended === 0) {
            const letter = letters[piece[at] as number] as number;
            at += 1;
            const place = state + letter;
            /** All ones when the place is this state's, or else none. */
            const own = (((letterAt[place] as number) ^ letter) - 1) >> 31;
            state = ((nextAt[place] as number) & own) | ((fromRoot[letter] as number) & ~own);
            ended = longestEnd[state] as number;
          }
          if (ended > 0) found(at - ended, at);
        }
        stateBefore = state;
      },
    };
  };
  return { bytes, begin };
}

/**
 * A letter for each byte that is in a needle, from 1 on, and 0 for all others. Their order is a new one each time, so
 * that no table spells a needle: tables are kept for longer than values are.
 */
function lettersIn(needles: readonly Uint8Array[]): Uint8Array {
  const bytes = [...new Set(needles.flatMap((needle) => [...new Set(needle)]))];
  const random = randomFillSync(new Uint32Array(bytes.length));
  for (let last = bytes.length - 1; last > 0; last -= 1) {
    const other = (random[last] as number) % (last + 1);
    [bytes[last], bytes[other]] = [bytes[other] as number, bytes[last] as number];
  }
  if (bytes.length > 255) throw new Error('too many letters to search for');
  const letters = new Uint8Array(256);
  bytes.forEach((byte, index) => {
    letters[byte] = index + 1;
  });
  return letters;
}

/** Beginnings of needles, each a state; 0 is the empty one. Children of a state are a list. */
interface Trie {
  readonly states: number;
  readonly letter: Uint8Array;
  readonly firstChild: Int32Array;
  readonly nextSibling: Int32Array;
  /** Length of the needle that a state is, or 0; then of the longest that any end of it is. */
  readonly longestEnd: Uint16Array;
}

function trieOf(needles: readonly Uint8Array[], letters: Uint8Array, total: number): Trie {
  const letter = new Uint8Array(total + 1);
  const firstChild = new Int32Array(total + 1);
  const nextSibling = new Int32Array(total + 1);
  const longestEnd = new Uint16Array(total + 1);
  let states = 1;
  for (const needle of needles) {
    let state = 0;
    for (const byte of needle) {
      const wanted = letters[byte] as number;
      let child = firstChild[state] as number;
      while (child !== 0 && letter[child] !== wanted) child = nextSibling[child] as number;
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
 * Where each state goes, by letter, as far as that is not where the root goes with the same letter. These are few: the
 * children, and for each place of a needle about one beginning more (at most one for every other needle).
 */
interface Rows {
  readonly start: Int32Array;
  readonly end: Int32Array;
  readonly letter: number[];
  readonly to: number[];
  /** By letter. */
  readonly root: Int32Array;
}

/** Shorter states first, as each one's row is that of its longest end which is a state too, but for its own children. */
function rowsOf({ states, letter, firstChild, nextSibling, longestEnd }: Trie): Rows {
  const [start, end, fallback, queue] = [0, 1, 2, 3].map(() => new Int32Array(states)) as [
    Int32Array,
    Int32Array,
    Int32Array,
    Int32Array,
  ];
  const rows: Rows = { start, end, letter: [], to: [], root: new Int32Array(256) };
  /** Where the state at hand goes: as the root does, but for what is put here and taken back. */
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
    for (let at = start[state] as number; at < rows.letter.length; at += 1) {
      const own = rows.letter[at] as number;
      to[own] = rows.root[own] as number;
    }
  }
  return rows;
}

/**
 * All rows in one, laid over each other where one has gaps: a state is the place at which its row begins, and no two
 * begin at the same, so that a place is a state's own if it has the letter that leads there from it.
 */
interface Tables {
  /** By byte. */
  readonly letters: Uint8Array;
  /** By letter. */
  readonly fromRoot: Int32Array;
  /** By place. */
  readonly letterAt: Uint8Array;
  readonly nextAt: Int32Array;
  /** By state. */
  readonly longestEnd: Uint16Array;
}

/** So many places are tried for a row before those at which trying begins are given up: they have no room left. */
const TRIES = 16;

function tablesOf(rows: Rows, trie: Trie): Omit<Tables, 'letters'> {
  const { states } = trie;
  const place = new Int32Array(states);
  let letterAt = new Uint8Array(2 * rows.letter.length + ROOM);
  let isState = new Uint8Array(letterAt.length);
  isState[0] = 1;
  let free = 1;
  let last = 0;
  for (let state = 1; state < states; state += 1) {
    const [from, until] = [rows.start[state] as number, rows.end[state] as number];
    while (letterAt[free] !== 0) free += 1;
    const first = Math.max(1, free - (until > from ? (rows.letter[from] as number) : 0));
    let base = first;
    while (isState[base] === 1 || !hasRoom(letterAt, base, rows.letter, from, until)) base += 1;
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
    const base = place[state] as number;
    longestEnd[base] = trie.longestEnd[state] as number;
    for (let at = rows.start[state] as number; at < (rows.end[state] as number); at += 1)
      nextAt[base + (rows.letter[at] as number)] = place[rows.to[at] as number] as number;
  }
  const fromRoot = rows.root.map((state) => place[state] as number);
  return { fromRoot, letterAt: letterAt.slice(0, places), nextAt, longestEnd };
}

/** Behind the last state there is a place for each letter. */
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
