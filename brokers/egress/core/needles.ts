import { percentEncode } from './percent-encode.ts';
import type { Pace, Slices } from './slices.ts';

/**
 * The least length of an encoded form, since a shorter one would occur in any text. The value itself is always searched
 * for.
 */
const SHORTEST_FORM = 6;
/** The greatest ratio of the length of a form to that of the text (`&quot;`, `\u003c`). */
export const LONGEST_FORM = 6;
const PERCENT = 0x25;
/** Texts that only hex, base64 and complete percent-encoding change. */
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
  // Some clients encode a password's non-ASCII characters in Latin-1 instead of UTF-8.
  const older = values
    .filter((value) => /[^\0-\x7f]/.test(value))
    .map((value) => Buffer.from(value, 'latin1'));
  return [...needles, ...older];
}

function* formsOf(value: string): Generator<string, void, void> {
  const text = Buffer.from(value, 'utf8');
  // Two leading bytes, for the three positions that the value may have in a group of base64.
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

/**
 * Written byte by byte into one buffer, since joining strings of two digits would take as long as scrubbing a whole
 * answer.
 */
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

/** Forms in URLs, JSON and HTML; encoders leave all other characters unchanged. */
function* escapedForms(value: string): Generator<string, void, void> {
  for (const form of new Set([
    percentEncode(value),
    encodeURIComponent(value),
    encodeURI(value),
    new URLSearchParams({ v: value }).toString().slice(2),
  ]))
    for (const percent of [form, form.replace(/%[0-9A-F]{2}/g, (code) => code.toLowerCase())]) {
      yield percent;
      // Hosts that redirect people first write a URL in a URL, which is encoded twice.
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
 * Characters that JSON encoders write as `\u003c`: those with a meaning in HTML, or outside ASCII, depending on the
 * encoder. The input may be JSON already, with a backslash before the quote (and before a backslash).
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
  // Templates of Go; .NET; Handlebars; Mustache; Underscore; validators of form input.
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
 * The base64 characters that depend on the value alone wherever it is in a text: for each of its three positions in a
 * group of three bytes, in both alphabets.
 */
function base64Forms(padded: Buffer): string[] {
  return [0, 1, 2].flatMap((before) => {
    const encoded = padded.toString('base64', 2 - before);
    const bytes = before + padded.length - 2;
    const inner = encoded.slice(Math.ceil((before * 8) / 6), Math.floor((bytes * 8) / 6));
    return [inner, inner.replaceAll('+', '-').replaceAll('/', '_')];
  });
}
