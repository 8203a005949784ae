import { percentEncode } from './slot.ts';

const STAR = 0x2a;
/** Shorter forms would be found in any text; the value itself is always looked for. */
const SHORTEST_FORM = 6;

/** Every form of a value that is looked for in what an upstream sends, longest first. */
export function needlesOf(value: string): readonly Buffer[] {
  const bytes = Buffer.from(value, 'latin1');
  const json = JSON.stringify(value).slice(1, -1);
  // Every encoder leaves other characters bare.
  const escaped = [
    percentEncode(value),
    encodeURIComponent(value),
    encodeURI(value),
    new URLSearchParams({ v: value }).toString().slice(2),
    [...bytes].map((byte) => `%${byte.toString(16).padStart(2, '0').toUpperCase()}`).join(''),
  ];
  const forms = [
    ...base64Forms(bytes),
    ...escaped,
    ...escaped.map((form) => form.replace(/%[0-9A-F]{2}/g, (code) => code.toLowerCase())),
    json,
    json.replaceAll('/', '\\/'),
    bytes.toString('hex'),
    bytes.toString('hex').toUpperCase(),
  ].filter((form) => form.length >= SHORTEST_FORM);
  return [...new Set([value, ...forms])]
    .sort((a, b) => b.length - a.length)
    .map((form) => Buffer.from(form, 'latin1'));
}

/**
 * The characters that a value alone decides when it stands anywhere in a text that is encoded: for each of the three
 * positions that it may have in a group of three bytes, in both alphabets.
 */
function base64Forms(bytes: Buffer): string[] {
  return [0, 1, 2].flatMap((before) => {
    const encoded = Buffer.concat([Buffer.alloc(before), bytes]).toString('base64');
    const inner = encoded.slice(Math.ceil((before * 8) / 6), Math.floor(((before + bytes.length) * 8) / 6));
    return [inner, inner.replaceAll('+', '-').replaceAll('/', '_')];
  });
}

/** Overwrites every needle in place with stars. */
function scrubBytes(bytes: Buffer, needles: readonly Buffer[]): void {
  for (const needle of needles) {
    for (let at = bytes.indexOf(needle); at >= 0; at = bytes.indexOf(needle, at + needle.length))
      bytes.fill(STAR, at, at + needle.length);
  }
}

/** A header's value, or another text of one byte a character, with stars for every needle. */
export function scrubText(text: string, needles: readonly Buffer[]): string {
  const bytes = Buffer.from(text, 'latin1');
  if (!needles.some((needle) => bytes.includes(needle))) return text;
  scrubBytes(bytes, needles);
  return bytes.toString('latin1');
}

/** Scrubs a body as it flows. Lengths do not change, so neither does Content-Length. */
export interface Scrubber {
  /** What can be sent now; bytes that may be the beginning of a needle are held back. */
  push(chunk: Buffer): Buffer;
  /** What was held back to the end. */
  end(): Buffer;
}

export function scrubber(needles: readonly Buffer[]): Scrubber {
  const longest = needles.reduce((length, needle) => Math.max(length, needle.length), 0);
  const finder = prefixFinder(needles);
  let held: Buffer = Buffer.alloc(0);
  return {
    push(chunk) {
      // A copy, as the chunk may be part of a buffer that is still the sender's.
      const bytes = held.length === 0 ? Buffer.from(chunk) : Buffer.concat([held, chunk]);
      scrubBytes(bytes, needles);
      const keep = finder(bytes, longest - 1);
      held = Buffer.from(bytes.subarray(bytes.length - keep));
      return bytes.subarray(0, bytes.length - keep);
    },
    end() {
      const rest = held;
      held = Buffer.alloc(0);
      return rest;
    },
  };
}

/** How many bytes at the end of a buffer are the beginning of some needle: the longest such end. */
function prefixFinder(needles: readonly Buffer[]) {
  const starts = new Map<number, Buffer[]>();
  for (const needle of needles) {
    const [first = 0] = needle;
    starts.set(first, [...(starts.get(first) ?? []), needle]);
  }
  return (bytes: Buffer, most: number): number => {
    for (let at = Math.max(0, bytes.length - most); at < bytes.length; at++) {
      const candidates = starts.get(bytes[at] ?? -1);
      const length = bytes.length - at;
      if (
        candidates?.some(
          (needle) => needle.length > length && needle.compare(bytes, at, bytes.length, 0, length) === 0,
        )
      )
        return length;
    }
    return 0;
  };
}
