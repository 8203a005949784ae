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
  /** Looks at a byte or along a link so far: at most a few for each byte, whatever the needles and the text. */
  readonly steps: number;
}

/** Of the beginnings of needles so many bytes are told apart without the automaton. */
const WINDOW = 32;
/** Below that, so many bytes would have to be looked at that it is as well done with all of them. */
const SHORTEST_SKIPPED = 16;
/** Bytes that are looked at together: the beginnings of so few needles have them that others are hardly ever met. */
const LOOK = 8;
const NONE = 0xffff;

/**
 * Prepares a search over needles of bytes. A state is a beginning of a needle, numbered in the order in which they were
 * put in, so that most have the next number as their only child; the few others are in a map.
 *
 * A needle of n bytes has n - 7 places where eight of them stand together: one of these is met by whoever looks at every
 * (n - 7)th place of the text alone. While no needle is begun only that is done, and most bytes are never looked at.
 */
export function compileSearch(needles: readonly Uint8Array[], letters = shuffledLetters()): Search {
  const shortest = needles.reduce((least, { length }) => Math.min(least, length), Number.POSITIVE_INFINITY);
  const longest = needles.reduce((most, { length }) => Math.max(most, length), 0);
  if (needles.length === 0 || shortest === 0 || longest >= NONE) throw new Error('nothing to search for');
  const step = shortest < SHORTEST_SKIPPED ? 0 : Math.min(WINDOW, shortest) - LOOK + 1;
  const most = needles.reduce((sum, { length }) => sum + length, 1);
  /** Letter that leads to the next state, by state. */
  const next = new Uint16Array(most).fill(NONE);
  /** Of a needle that ends in a state its length, then the longest that any end of it has. */
  const longestEnd = new Uint16Array(most);
  /** By state and letter, children that are not the next state; and which states have such. */
  const others = new Map<number, number>();
  const branches = new Uint8Array(most);
  const fromRoot = new Uint32Array(256);
  const looks = new Uint8Array(LOOKS / 8);

  let states = 1;
  const child = (state: number, letter: number): number => {
    if (state === 0) return fromRoot[letter] as number;
    if (next[state] === letter) return state + 1;
    return branches[state] === 0 ? 0 : (others.get(state * 256 + letter) ?? 0);
  };
  for (const needle of needles) {
    let state = 0;
    needle.forEach((byte, index) => {
      if (index < step) addLook(looks, lookAt(needle, index));
      const letter = letters[byte] as number;
      const known = child(state, letter);
      if (known === 0) {
        if (state === 0) fromRoot[letter] = states;
        else if (states === state + 1) next[state] = letter;
        else {
          branches[state] = 1;
          others.set(state * 256 + letter, states);
        }
        states += 1;
      }
      state = known === 0 ? states - 1 : known;
    });
    longestEnd[state] = needle.length;
  }
  const fallback = fallbacks({ states, next, others, fromRoot, child, longestEnd });

  const begin = (): Scan => {
    let stateBefore = 0;
    let stepsBefore = 0;
    return {
      get steps() {
        return stepsBefore;
      },
      push(piece, found) {
        // Of this call alone: what a closure shares is far from the processor's registers.
        let state = stateBefore;
        let steps = 0;
        const { length } = piece;
        let at = 0;
        while (at < length) {
          let until = length;
          if (state === 0 && step > 0) {
            // No needle is begun: those to come begin at `at` or later, and each of them covers one of these places.
            let sample = at + step - 1;
            while (sample + LOOK <= length && !hasLook(looks, lookAt(piece, sample))) {
              sample += step;
              steps += 1;
            }
            at = Math.max(at, sample - step + 1);
            // The rest is too short for a place, and must be known for the next piece.
            until = Math.min(length, sample + 1);
          }
          for (; at < length && (state !== 0 || at < until); at += 1) {
            const letter = letters[piece[at] as number] as number;
            for (;;) {
              steps += 1;
              if (state === 0) {
                state = fromRoot[letter] as number;
                break;
              }
              if (next[state] === letter) {
                state += 1;
                break;
              }
              const other = branches[state] === 0 ? undefined : others.get(state * 256 + letter);
              if (other !== undefined) {
                state = other;
                break;
              }
              state = fallback[state] as number;
            }
            const ended = longestEnd[state] as number;
            if (ended > 0) found(at + 1 - ended, at + 1);
          }
        }
        stateBefore = state;
        stepsBefore += steps;
      },
    };
  };
  const bytes = [next, longestEnd, branches, fromRoot, looks, fallback].reduce(
    (sum, { byteLength }) => sum + byteLength,
    0,
  );
  return { bytes, begin };
}

interface Trie {
  readonly states: number;
  readonly next: Uint16Array;
  readonly others: ReadonlyMap<number, number>;
  readonly fromRoot: Uint32Array;
  readonly child: (state: number, letter: number) => number;
  readonly longestEnd: Uint16Array;
}

/** Of each state the longest end of it that is a state too: where to go on when no child fits. Shorter ones come first. */
function fallbacks({ states, next, others, fromRoot, child, longestEnd }: Trie): Uint32Array {
  const fallback = new Uint32Array(states);
  const branching = new Map<number, { letter: number; to: number }[]>();
  for (const [key, to] of others) {
    const from = Math.floor(key / 256);
    const known = branching.get(from);
    const edge = { letter: key % 256, to };
    if (known === undefined) branching.set(from, [edge]);
    else known.push(edge);
  }
  const queue = new Uint32Array(states);
  let queued = 0;
  const visit = (parent: number, letter: number, state: number): void => {
    let end = parent;
    let shorter = 0;
    while (end !== 0 && shorter === 0) {
      end = fallback[end] as number;
      shorter = child(end, letter);
    }
    fallback[state] = shorter;
    if (longestEnd[state] === 0) longestEnd[state] = longestEnd[shorter] as number;
    queue[queued] = state;
    queued += 1;
  };
  fromRoot.forEach((state, letter) => {
    if (state !== 0) visit(0, letter, state);
  });
  for (let taken = 0; taken < queued; taken += 1) {
    const state = queue[taken] as number;
    const letter = next[state] as number;
    if (letter !== NONE) visit(state, letter, state + 1);
    for (const edge of branching.get(state) ?? []) visit(state, edge.letter, edge.to);
  }
  return fallback;
}

/** So many bits, one for all eights of bytes that come out at it. */
const LOOKS = 65_536;
const lookAt = (bytes: Uint8Array, at: number): number =>
  Math.imul(fourAt(bytes, at) ^ Math.imul(fourAt(bytes, at + 4), 0x85ebca6b), 0x9e3779b1) >>> 16;
const fourAt = (bytes: Uint8Array, at: number): number =>
  (bytes[at] as number) |
  ((bytes[at + 1] as number) << 8) |
  ((bytes[at + 2] as number) << 16) |
  ((bytes[at + 3] as number) << 24);
const addLook = (looks: Uint8Array, look: number): void => {
  looks[look >> 3] = (looks[look >> 3] as number) | (1 << (look & 7));
};
const hasLook = (looks: Uint8Array, look: number): boolean =>
  ((looks[look >> 3] as number) & (1 << (look & 7))) !== 0;

/** A letter for each byte, so that no table spells a needle: they are kept for longer than values are. */
function shuffledLetters(): Uint8Array {
  const random = randomFillSync(new Uint32Array(256));
  const letters = Uint8Array.from({ length: 256 }, (_, byte) => byte);
  for (let last = 255; last > 0; last -= 1) {
    const other = (random[last] as number) % (last + 1);
    [letters[last], letters[other]] = [letters[other] as number, letters[last] as number];
  }
  return letters;
}
