import { randomFillSync } from 'node:crypto';
import { rowsOf, trieOf } from './automaton.ts';
import { Pace, type Slices } from './slices.ts';
import { type Rowed, tablesOf } from './tables.ts';

export interface Tables extends Rowed {
  /** The letter of each byte. */
  readonly letters: Uint8Array;
}

/**
 * Finds every occurrence of several needles in a text that arrives in pieces, with the automaton of Aho and Corasick.
 */
export interface Search {
  /** The size of its tables in bytes. */
  readonly bytes: number;
  begin(): Scan;
}

/** Called for an occurrence, which may begin before the piece (then `start` is negative) and ends in it. */
export type Found = (start: number, end: number) => void;

interface Scan {
  /**
   * Continues with the next piece. Of several occurrences with the same end the longest is reported, which covers the
   * others; ends only increase.
   */
  push(piece: Uint8Array, found: Found): void;
}

/**
 * Prepares a search. Each byte of a text costs the same table look-ups and no branch, however much of a needle precedes
 * it: otherwise a caller whose own texts are searched could find out the needle byte by byte from the time. `watch`
 * lets a test count the look-ups.
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
          // No function is called here, so that all tables stay in registers, which takes less than half of the time.
          while (at < length && ended === 0) {
            const letter = letters[piece[at] as number] as number;
            at += 1;
            const place = state + letter;
            /** All bits are set if the entry belongs to this state, and none otherwise. */
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
 * A letter for each byte that occurs in a needle, from 1 on, and 0 for all others. Their order is random, so that a
 * table never contains a needle, since tables are kept longer than values.
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
