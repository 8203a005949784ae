import { LONGEST_FORM, needlesOf } from './needles.ts';
import { type Found, prepareSearch } from './search.ts';
import { atOnce, Pace, type Slices } from './slices.ts';
import { Spans } from './spans.ts';

const STAR = 0x2a;

/** Replaces values by stars, in all of their forms. Lengths do not change, and so neither does Content-Length. */
export interface Scrubber {
  /** Scrubs a header's name or value, or another text of one byte a character. */
  text(text: string): string;
  /** Begins a body, which is scrubbed while it is sent. */
  body(): BodyScrubber;
}

interface BodyScrubber {
  /**
   * Returns what can be sent now: all but the run of characters at the end that a value could be part of. Its length does
   * not depend on the value, nor on whether one has begun: a caller could tell the value from that, byte by byte.
   */
  push(chunk: Buffer): Buffer;
  /** Returns the bytes that were still held back. */
  end(): Buffer;
  /** Whether the body contained a value so far. */
  readonly starred: boolean;
}

/** A scrubber that is kept for as long as its values are in use. */
export interface CompiledScrubber extends Scrubber {
  /** The size of its tables. */
  readonly bytes: number;
}

/** The characters of values; any other character ends a run of them. */
export type Alphabet = 'visible' | 'printable';

const RUNS: Readonly<Record<Alphabet, Uint8Array>> = {
  visible: Uint8Array.from({ length: 256 }, (_, byte) => Number(byte > 0x20 && byte < 0x7f)),
  // A password may contain spaces and characters outside ASCII.
  printable: Uint8Array.from({ length: 256 }, (_, byte) => Number(byte >= 0x20 && byte !== 0x7f)),
};

/** The most bytes that are held back; few steps, so that they tell next to nothing of the length of a value. */
const HELD_BACK = [1_024, 4_096, 16_384, 32_768];

/** Compiles a scrubber synchronously, for short values only, since it blocks the process. */
export const scrubberOf = (values: readonly string[], alphabet?: Alphabet): CompiledScrubber =>
  atOnce(prepareScrubber(values, alphabet));

export function* prepareScrubber(
  values: readonly string[],
  alphabet: Alphabet = 'visible',
): Slices<CompiledScrubber> {
  const pace = new Pace();
  const needles = yield* needlesOf(values, pace);
  const search = yield* prepareSearch(needles, undefined, pace);
  for (const needle of needles) needle.fill(0);
  const longest = LONGEST_FORM * values.reduce((most, { length }) => Math.max(most, length), 0);
  const most = HELD_BACK.find((step) => step >= longest);
  if (most === undefined) throw new Error('a value is too long to be looked for');
  const run = RUNS[alphabet];
  return {
    bytes: search.bytes,
    text(text) {
      const bytes = Buffer.from(text, 'latin1');
      const spans = new Spans();
      search.begin().push(bytes, (start, end) => spans.add(start, end));
      if (spans.none) return text;
      spans.takeTo(bytes.length, (start, end) => bytes.fill(STAR, start, end));
      return bytes.toString('latin1');
    },
    body: () => bodyScrubber(search.begin(), run, most - 1),
  };
}

/** Applies one scrubber after the other. */
export function scrubbersInTurn(first: Scrubber, second: Scrubber): Scrubber {
  return {
    text: (text) => second.text(first.text(text)),
    body() {
      const [before, behind] = [first.body(), second.body()];
      return {
        push: (chunk) => behind.push(before.push(chunk)),
        end: () => Buffer.concat([behind.push(before.end()), behind.end()]),
        get starred() {
          return before.starred || behind.starred;
        },
      };
    },
  };
}

/** Wraps the scrubber of one answer: calls `onStarred` once if a value is in it. */
export function reporting(scrubber: Scrubber, onStarred: () => void): Scrubber {
  let reported = false;
  const report = () => {
    if (!reported) onStarred();
    reported = true;
  };
  return {
    text(text) {
      const scrubbed = scrubber.text(text);
      if (scrubbed !== text) report();
      return scrubbed;
    },
    body() {
      const body = scrubber.body();
      return {
        push(chunk) {
          const out = body.push(chunk);
          if (body.starred) report();
          return out;
        },
        end: () => body.end(),
        get starred() {
          return body.starred;
        },
      };
    },
  };
}

const NOTHING = Buffer.alloc(0);

function bodyScrubber(
  scan: { push(piece: Uint8Array, found: Found): void },
  run: Uint8Array,
  most: number,
): BodyScrubber {
  /** The bytes held back, from `from` to `to`; the buffer has twice the room, so that a byte moves at most once. */
  let held: Buffer = NOTHING;
  let [from, to] = [0, 0];
  /** Ranges that become stars; positions, and `sent`, count from the beginning of the body. */
  const spans = new Spans();
  let sent = 0;
  let before = 0;
  let starred = false;
  const found: Found = (start, end) => {
    starred = true;
    spans.add(sent + before + start, sent + before + end);
  };

  const hold = (bytes: Buffer): void => {
    if (bytes.length === 0) return;
    if (held.length === 0) held = Buffer.allocUnsafeSlow(2 * most);
    if (to + bytes.length > held.length) {
      held.copy(held, 0, from, to);
      [from, to] = [0, to - from];
    }
    to += bytes.copy(held, to);
  };
  /** Returns the first `count` bytes of what was held and of the chunk, with their stars. */
  const release = (count: number, chunk: Buffer): Buffer => {
    const ofHeld = Math.min(count, to - from);
    let out = chunk.subarray(0, count);
    if (ofHeld > 0 || !spans.none) {
      // A copy, since the chunk belongs to the sender and the held bytes are overwritten.
      out = Buffer.allocUnsafe(count);
      held.copy(out, 0, from, from + ofHeld);
      chunk.copy(out, ofHeld, 0, count - ofHeld);
      spans.takeTo(sent + count, (start, end) => out.fill(STAR, start - sent, end - sent));
    }
    sent += count;
    from += ofHeld;
    return out;
  };
  return {
    get starred() {
      return starred;
    },
    push(chunk) {
      before = to - from;
      scan.push(chunk, found);
      let ending = chunk.length;
      const earliest = Math.max(0, chunk.length - most);
      while (ending > earliest && run[chunk[ending - 1] as number] === 1) ending -= 1;
      // Held bytes belong to the run at the end only if the whole chunk does.
      const tail = Math.min(most, chunk.length - ending + (ending === 0 ? before : 0));
      const count = before + chunk.length - tail;
      const out = release(count, chunk);
      hold(chunk.subarray(Math.max(0, count - before)));
      return out;
    },
    end() {
      const rest = release(to - from, NOTHING);
      held.fill(0);
      return rest;
    },
  };
}
