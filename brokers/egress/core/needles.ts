import type { Pace, Slices } from './slices.ts';
import { percentEncode } from './slot.ts';

/** Shorter forms would be found in any text; a value itself is always looked for. */
const SHORTEST_FORM = 6;
/** No form of a text is longer than so many times the text (`&quot;`, `\u003c`). */
export const LONGEST_FORM = 6;
const PERCENT = 0x25;
/** What no encoder but hex, base64 and "percent, everything" would change. */
const PLAIN = /^[A-Za-z0-9_.-]*$/;

/** Every form of the values that is looked for in what an upstream sends, each once, in bytes. */
export function* needlesOf(values: readonly string[], pace: Pace): Slices<readonly Uint8Array[]> {
  const forms = new Set(values);
  for (const value of values)
    for (const form of formsOf(value)) {
      if (form.length >= SHORTEST_FORM) forms.add(form);
      // To write a character takes longer than to look at one.
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

/** Byte by byte in one piece: put together from pieces of two digits, it costs as much as the whole answer. */
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
  const percent = [
    percentEncode(value),
    encodeURIComponent(value),
    encodeURI(value),
    new URLSearchParams({ v: value }).toString().slice(2),
  ];
  yield* percent;
  for (const form of percent) yield form.replace(/%[0-9A-F]{2}/g, (code) => code.toLowerCase());
  const json = JSON.stringify(value).slice(1, -1);
  for (const text of [json, json.replaceAll('/', '\\/')]) {
    yield text;
    // Go, Rails and PHP escape in JSON what would mean something in HTML; Python and PHP what is not ASCII.
    for (const escaped of [/[<>&]/g, /[<>&']/g, /[^\0-\x7f]/g]) {
      const codes = text.replace(escaped, unicodeEscape);
      yield codes;
      yield codes.replace(/\\u[0-9a-f]{4}/g, upperDigits);
    }
  }
  for (const quote of QUOTES)
    for (const apostrophe of APOSTROPHES) yield htmlEscaped(value, quote, apostrophe);
}

const QUOTES = ['&quot;', '&#34;'];
const APOSTROPHES = ["'", '&#39;', '&#039;', '&#x27;', '&apos;'];

function htmlEscaped(value: string, quote: string, apostrophe: string): string {
  const entities: Readonly<Record<string, string>> = {
    '&': '&amp;',
    '<': '&lt;',
    '>': '&gt;',
    '"': quote,
    "'": apostrophe,
  };
  return value.replace(/[&<>"']/g, (character) => entities[character] ?? character);
}

const unicodeEscape = (character: string): string =>
  `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
const upperDigits = (code: string): string => `\\u${code.slice(2).toUpperCase()}`;

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
