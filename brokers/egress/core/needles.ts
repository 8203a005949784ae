import { percentEncode } from './percent-encode.ts';
import type { Pace, Slices } from './slices.ts';

/** The least length of an encoded form: a shorter one would be found in any text. The value itself is always looked for. */
const SHORTEST_FORM = 6;
/** No form of a text is longer than so many times the text (`&quot;`, `\u003c`). */
export const LONGEST_FORM = 6;
const PERCENT = 0x25;
/** Text that no encoder changes but hex, base64 and the one that percent-encodes everything. */
const PLAIN = /^[A-Za-z0-9_.-]*$/;

/** Returns every form of the values that an answer is searched for, each once, in bytes. */
export function* needlesOf(values: readonly string[], pace: Pace): Slices<readonly Uint8Array[]> {
  const forms = new Set(values);
  for (const value of values)
    for (const form of formsOf(value)) {
      if (form.length >= SHORTEST_FORM) forms.add(form);
      // Writing a form costs about half a step for each character.
      pace.steps += form.length >> 1;
      if (pace.due) yield pace.rest();
    }
  const needles = Array.from(forms, (form) => Buffer.from(form, 'utf8'));
  // Some clients write what is not ASCII in a user's password as it was before UTF-8.
  const older = values
    .filter((value) => /[^\0-\x7f]/.test(value))
    .map((value) => Buffer.from(value, 'latin1'));
  return [...needles, ...older];
}

function* formsOf(value: string): Generator<string, void, void> {
  const text = Buffer.from(value, 'utf8');
  // Two bytes in front, for the places in a group of three that the value may have in base64.
  const padded = Buffer.allocUnsafe(text.length + 2).fill(0, 0, 2);
  text.copy(padded, 2);
  const hex = text.toString('hex');
  const percent = percentOf(hex);
  yield* base64Forms(padded);
  padded.fill(0);
  text.fill(0);
  if (!PLAIN.test(value)) yield* escapedForms(value);
  yield* [percent, percent.toUpperCase(), hex, hex.toUpperCase()];
}

/** Written byte by byte into one buffer: to join pieces of two digits costs as much as to scrub a whole answer. */
function percentOf(hex: string): string {
  const bytes = Buffer.allocUnsafe((hex.length / 2) * 3);
  for (let from = 0, to = 0; from < hex.length; from += 2, to += 3) {
    bytes[to] = PERCENT;
    bytes[to + 1] = hex.charCodeAt(from);
    bytes[to + 2] = hex.charCodeAt(from + 1);
  }
  const percent = bytes.toString('latin1');
  bytes.fill(0);
  return percent;
}

/** In URLs, JSON and HTML; every encoder leaves other characters bare. */
function* escapedForms(value: string): Generator<string, void, void> {
  for (const form of new Set([
    percentEncode(value),
    encodeURIComponent(value),
    encodeURI(value),
    new URLSearchParams({ v: value }).toString().slice(2),
  ]))
    for (const percent of [form, form.replace(/%[0-9A-F]{2}/g, (code) => code.toLowerCase())]) {
      yield percent;
      // Hosts that send people elsewhere first write a URL in a URL, so it is encoded twice.
      yield percent.replaceAll('%', '%25');
    }
  const json = JSON.stringify(value).slice(1, -1);
  for (const text of [json, json.replaceAll('/', '\\/')]) {
    yield text;
    for (const some of WRITTEN_AS_NUMBERS) {
      const codes = text.replace(some, unicodeEscape);
      yield codes;
      yield codes.replace(/\\u[0-9a-f]{4}/g, upperDigits);
    }
  }
  for (const entities of ENTITIES)
    yield value.replace(/[^A-Za-z0-9]/g, (character) => entities[character] ?? character);
}

/**
 * What encoders of JSON write as `\u003c`: what would mean something in HTML, or is not ASCII, by their own opinions. Of
 * text that is JSON already, where the quote stands behind a backslash (and a backslash behind another).
 */
const WRITTEN_AS_NUMBERS = [
  // Go and Rails; PHP, with and without quotes; Gson; .NET, and templates of Go; Python and PHP.
  /[<>&]/g,
  /[<>&']/g,
  /\\\\|\\"|[<>&']/g,
  /[<>&'=]/g,
  /\\\\|\\"|[<>&'+`]|[^\0-\x7f]/g,
  /[^\0-\x7f]/g,
];

const unicodeEscape = (text: string): string =>
  text === '\\\\'
    ? text
    : `\\u${text
        .charCodeAt(text.length - 1)
        .toString(16)
        .padStart(4, '0')}`;
const upperDigits = (code: string): string => `\\u${code.slice(2).toUpperCase()}`;

const APOSTROPHES = ["'", '&#39;', '&#039;', '&#x27;', '&apos;'];
const LEAST_ENTITIES = { '&': '&amp;', '<': '&lt;', '>': '&gt;' };
/** The entities that different encoders write. */
const ENTITIES: readonly Readonly<Record<string, string>>[] = [
  ...['&quot;', '&#34;'].flatMap((quote) =>
    APOSTROPHES.map((apostrophe) => ({ '"': quote, "'": apostrophe })),
  ),
  // Templates of Go; .NET; Handlebars; Mustache; Underscore; what checks the input of forms.
  { '"': '&#34;', "'": '&#39;', '+': '&#43;' },
  { '"': '&quot;', "'": '&#x27;', '+': '&#x2B;', '`': '&#x60;' },
  { '"': '&quot;', "'": '&#x27;', '=': '&#x3D;', '`': '&#x60;' },
  { '"': '&quot;', "'": '&#39;', '/': '&#x2F;', '=': '&#x3D;', '`': '&#x60;' },
  { '"': '&quot;', "'": '&#x27;', '`': '&#x60;' },
  { '"': '&quot;', "'": '&#x27;', '/': '&#x2F;' },
  { '"': '&quot;', "'": '&#x27;', '/': '&#x2F;', '`': '&#96;' },
  { '"': '&quot;', "'": '&#x27;', '/': '&#x2F;', '`': '&#96;', '\\': '&#x5C;' },
].map((more) => ({ ...LEAST_ENTITIES, ...more }));

/**
 * The characters that a value alone decides when it stands anywhere in a text that is encoded: for each of the three
 * positions that it may have in a group of three bytes, in both alphabets.
 */
function base64Forms(padded: Buffer): string[] {
  return [0, 1, 2].flatMap((before) => {
    const encoded = padded.toString('base64', 2 - before);
    const bytes = before + padded.length - 2;
    const inner = encoded.slice(Math.ceil((before * 8) / 6), Math.floor((bytes * 8) / 6));
    return [inner, inner.replaceAll('+', '-').replaceAll('/', '_')];
  });
}
