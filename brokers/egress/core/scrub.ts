import { needlesOf } from './needles.ts';
import { searchFor } from './search.ts';

const STAR = 0x2a;

/** Puts stars in the place of a value, in all its forms. Lengths do not change, so neither does Content-Length. */
export interface Scrubber {
  /** A header's name or value, or another text of one byte a character. */
  text(text: string): string;
  /** Begins a body, which is scrubbed as it flows. */
  body(): BodyScrubber;
}

interface BodyScrubber {
  /** What can be sent now, the chunk itself if nothing is in it; what may be the beginning of a value is held back. */
  push(chunk: Buffer): Buffer;
  /** What was held back to the end. */
  end(): Buffer;
}

const NOTHING = Buffer.alloc(0);

export function scrubberOf(value: string): Scrubber {
  const needles = needlesOf(value);
  const search = searchFor(needles);
  return {
    text(text) {
      // Hardly ever is there anything to be done with bytes.
      if (!needles.some((needle) => text.includes(needle))) return text;
      const bytes = Buffer.from(text, 'latin1');
      for (const [start, end] of search.find(bytes)) cover(bytes, start, end);
      return bytes.toString('latin1');
    },
    body() {
      /** As it came, for it may be the beginning of another occurrence … */
      let held: Buffer = NOTHING;
      /** … though so many bytes of it belong to one that has ended. */
      let starred = 0;
      return {
        push(chunk) {
          const bytes = held.length === 0 ? chunk : Buffer.concat([held, chunk]);
          const found = search.find(bytes);
          const sent = bytes.length - search.unfinished(bytes);
          let out = bytes.subarray(0, sent);
          let end = starred;
          if (found.length > 0 || starred > 0) {
            // A copy, as the chunk is the sender's.
            out = Buffer.from(out);
            cover(out, 0, starred);
            for (const [start, until] of found) {
              if (start >= sent) continue;
              cover(out, start, until);
              end = Math.max(end, until);
            }
          }
          starred = Math.max(0, end - sent);
          held = sent === bytes.length ? NOTHING : Buffer.from(bytes.subarray(sent));
          return out;
        },
        end() {
          const rest = Buffer.from(held);
          cover(rest, 0, starred);
          // Whole occurrences may be within the beginning of one that never came.
          for (const [start, until] of search.find(held)) cover(rest, start, until);
          [held, starred] = [NOTHING, 0];
          return rest;
        },
      };
    },
  };
}

const cover = (bytes: Buffer, start: number, end: number): void => {
  bytes.fill(STAR, start, Math.min(end, bytes.length));
};
