/** Finds every occurrence of any of several needles in one pass. */
export interface Search {
  /** Start and end of each occurrence; they may overlap, and come in no order. */
  find(bytes: Uint8Array): readonly (readonly [start: number, end: number])[];
  /** How many bytes at the end are the beginning of a needle and not all of it: the longest such end. */
  unfinished(bytes: Uint8Array): number;
}

const NOTHING: readonly never[] = [];
/** Bytes in which to look for one needle after the other costs less than to prepare for all of them. */
const FEW = 4_096;

/** Looks in small texts as they are, and prepares itself when there is more. Needles are of one byte a character. */
export function searchFor(needles: readonly string[]): Search {
  const simple = simpleSearch(needles);
  let prepared: Search | undefined;
  let looked = 0;
  const either = ({ length }: Uint8Array): Search => {
    looked += length;
    if (prepared !== undefined || looked <= FEW) return prepared ?? simple;
    prepared = compileSearch(needles.map((needle) => Buffer.from(needle, 'latin1')));
    return prepared;
  };
  return {
    find: (bytes) => either(bytes).find(bytes),
    unfinished: (bytes) => (prepared ?? simple).unfinished(bytes),
  };
}

/** One needle after the other. */
export function simpleSearch(needles: readonly string[]): Search {
  const shortest = needles.reduce((least, { length }) => Math.min(least, length), Number.POSITIVE_INFINITY);
  const longest = needles.reduce((most, { length }) => Math.max(most, length), 0);
  return {
    find(bytes) {
      if (bytes.length < shortest) return NOTHING;
      const text = latin1(bytes);
      let found: (readonly [number, number])[] | undefined;
      for (const needle of needles)
        for (let at = text.indexOf(needle); at >= 0; at = text.indexOf(needle, at + 1)) {
          found ??= [];
          found.push([at, at + needle.length]);
        }
      return found ?? NOTHING;
    },
    unfinished(bytes) {
      const end = latin1(bytes, Math.max(0, bytes.length - longest + 1));
      let begun = 0;
      for (const needle of needles) {
        const first = needle.slice(0, 1);
        // What is further from the end than the needle is long would be all of it.
        let at = end.indexOf(first, Math.max(0, end.length - needle.length + 1));
        while (at >= 0 && end.length - at > begun) {
          if (needle.startsWith(end.slice(at))) begun = end.length - at;
          at = end.indexOf(first, at + 1);
        }
      }
      return begun;
    },
  };
}

const latin1 = ({ buffer, byteOffset, length }: Uint8Array, start = 0): string =>
  Buffer.from(buffer, byteOffset + start, length - start).toString('latin1');
const TABLE = 8_192;
/** Of two neighbouring bytes. */
const hash = (first: number, second: number): number => ((first << 6) ^ second) & (TABLE - 1);

/** Of longer needles so much of the beginning is enough to find them. */
const WINDOW = 64;

/**
 * Prepares a search. A needle of n bytes has n - 1 pairs of neighbours, so that one of them is met by whoever looks at
 * every (n - 1)th pair of the text alone. Few of those are pairs of a needle: most bytes are never looked at.
 */
export function compileSearch(needles: readonly Uint8Array[]): Search {
  const shortest = needles.reduce((least, { length }) => Math.min(least, length), Number.POSITIVE_INFINITY);
  const longest = needles.reduce((most, { length }) => Math.max(most, length), 0);
  if (needles.length === 0 || shortest === 0) throw new Error('nothing to search for');
  // A needle of one byte has no pair, and every byte is looked at.
  const next = shortest === 1 ? 0 : 1;
  const step = Math.min(WINDOW, shortest) - next;
  // Pairs are numbered from 1, needle by needle: of a hash the last one, of each the one before it with the same hash.
  const lastOf = new Uint16Array(TABLE);
  const before = new Uint16Array(needles.length * step + 1);
  const byStart: (Uint8Array[] | undefined)[] = new Array(256);
  needles.forEach((needle, index) => {
    for (let offset = 0; offset < step; offset++) {
      const pair = index * step + offset + 1;
      const key = hash(needle[offset] as number, needle[offset + next] as number);
      before[pair] = lastOf[key] as number;
      lastOf[key] = pair;
    }
    const first = needle[0] as number;
    const others = byStart[first];
    if (others === undefined) byStart[first] = [needle];
    else others.push(needle);
  });

  return {
    find(bytes) {
      let found: (readonly [number, number])[] | undefined;
      const last = bytes.length - next;
      for (let at = 0; at < last; at += step) {
        let pair = lastOf[hash(bytes[at] as number, bytes[at + next] as number)] as number;
        for (; pair !== 0; pair = before[pair] as number) {
          const needle = needles[Math.floor((pair - 1) / step)] as Uint8Array;
          const start = at - ((pair - 1) % step);
          const end = start + needle.length;
          if (start < 0 || end > bytes.length || !agree(bytes, start, needle, needle.length)) continue;
          found ??= [];
          found.push([start, end]);
        }
      }
      return found ?? NOTHING;
    },
    unfinished(bytes) {
      for (let at = Math.max(0, bytes.length - longest + 1); at < bytes.length; at++) {
        const candidates = byStart[bytes[at] as number];
        if (candidates === undefined) continue;
        const length = bytes.length - at;
        for (const needle of candidates)
          if (needle.length > length && agree(bytes, at, needle, length)) return length;
      }
      return 0;
    },
  };
}

function agree(bytes: Uint8Array, start: number, needle: Uint8Array, length: number): boolean {
  for (let at = 0; at < length; at++) if (bytes[start + at] !== needle[at]) return false;
  return true;
}
