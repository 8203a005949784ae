/** Finds every occurrence of any of several needles in one pass. */
export interface Search {
  /** Length of the shortest needle: what is shorter holds none. */
  readonly shortest: number;
  /** Start and end of each occurrence; they may overlap, and come in no order. */
  find(bytes: Uint8Array): readonly (readonly [start: number, end: number])[];
  /** How many bytes at the end are the beginning of a needle and not all of it: the longest such end. */
  unfinished(bytes: Uint8Array): number;
}

const NOTHING: readonly never[] = [];
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
    shortest,
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
