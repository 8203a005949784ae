import { LONGEST_FORM, needlesOf } from './needles.ts';
import { type Found, prepareSearch } from './search.ts';
import { atOnce, Pace, type Slices } from './slices.ts';
import { Spans } from './spans.ts';

const STAR = 0x2a;

/** Puts stars in the place of values, in all their forms. Lengths do not change, so neither does Content-Length. */
export interface Scrubber {
  /** A header's name or value, or another text of one byte a character. */
  text(text: string): string;
  /** Begins a body, which is scrubbed as it flows. */
  body(): BodyScrubber;
}

interface BodyScrubber {
  /**
   * What can be sent now: all but the run of characters at the end that a value could be part of. How much that is does
   * not depend on the value, nor on whether one has begun: who sees the parts would be told so, character by character.
   */
  push(chunk: Buffer): Buffer;
  /** What was held back to the end. */
  end(): Buffer;
  /** Whether a value was in it so far. */
  readonly starred: boolean;
}

/** One that is kept for as long as its values are in use. */
export interface CompiledScrubber extends Scrubber {
  /** Of its tables. */
  readonly bytes: number;
}

/** Of what characters values are, and so what ends a run of them. */
export type Alphabet = 'visible' | 'printable';

const RUNS: Readonly<Record<Alphabet, Uint8Array>> = {
  visible: Uint8Array.from({ length: 256 }, (_, byte) => Number(byte > 0x20 && byte < 0x7f)),
  // With spaces and whatever is not ASCII, as a user's password may have.
  printable: Uint8Array.from({ length: 256 }, (_, byte) => Number(byte >= 0x20 && byte !== 0x7f)),
};

/** The longest run that is held back goes by these steps, so that it tells next to nothing of the values' length. */
const HELD_BACK = [1_024, 4_096, 16_384, 32_768];

/** For values that are short, since nothing else is done meanwhile. */
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

/** One after the other. */
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

/** The same, for one answer; tells once when a value is in it. */
export function reporting(scrubber: Scrubber, onStarred: () => void): Scrubber {
  let told = false;
  const tell = () => {
    if (!told) onStarred();
    told = true;
  };
  return {
    text(text) {
      const scrubbed = scrubber.text(text);
      if (scrubbed !== text) tell();
      return scrubbed;
    },
    body() {
      const body = scrubber.body();
      return {
        push(chunk) {
          const out = body.push(chunk);
          if (body.starred) tell();
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
  /** As it came, from `from` to `to`, with as much room again: so a byte is moved once more at most. */
  let held: Buffer = NOTHING;
  let [from, to] = [0, 0];
  /** Where stars go, counted from the beginning of the body; as is what was sent. */
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
  /** The first bytes, of those that were held and then of the chunk, with their stars. */
  const release = (count: number, chunk: Buffer): Buffer => {
    const ofHeld = Math.min(count, to - from);
    let out = chunk.subarray(0, count);
    if (ofHeld > 0 || !spans.none) {
      // A copy, as the chunk is the sender's and what is held is written over.
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
      // What is held is part of the run at the end if the whole chunk is.
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
