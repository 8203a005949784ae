import { randomFillSync } from 'node:crypto';
import { rowsOf, trieOf } from './automaton.ts';
import { Pace, type Slices } from './slices.ts';
import { type Rowed, tablesOf } from './tables.ts';

export interface Tables extends Rowed {
  /** The letter of each byte. */
  readonly letters: Uint8Array;
}

/** Finds every occurrence of any of several needles in a text that comes in pieces, by Aho and Corasick's automaton. */
export interface Search {
  /** The size of its tables, which are kept as long as the search. */
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
export function* prepareSearch(
  needles: readonly Uint8Array[],
  watch: (tables: Tables) => Tables = (tables) => tables,
  pace = new Pace(),
): Slices<Search> {
  const total = needles.reduce((sum, { length }) => sum + length, 0);
  if (needles.length === 0 || needles.some(({ length }) => length === 0 || length > 0xffff))
    throw new Error('nothing to search for');
  const seen = new Uint8Array(256);
  for (const needle of needles) {
    for (const byte of needle) seen[byte] = 1;
    pace.steps += needle.length >> 3;
    if (pace.due) yield pace.rest();
  }
  const own = lettersOf(Array.from(seen.keys()).filter((byte) => seen[byte] === 1));
  const trie = yield* trieOf(needles, own, total, pace);
  const rows = yield* rowsOf(trie, pace);
  const tables: Tables = { letters: own, ...(yield* tablesOf(rows, trie, pace)) };
  const bytes = Object.values(tables).reduce((sum, table: Uint8Array) => sum + table.byteLength, 0);
  const { letters, fromRoot, letterAt, nextAt, longestEnd } = watch(tables);

  const begin = (): Scan => {
    let stateBefore = 0;
    return {
      push(piece, found) {
        const { length } = piece;
        // A local variable, since one that a closure shares is not kept in a register.
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
function lettersOf(bytes: number[]): Uint8Array {
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
