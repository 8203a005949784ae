import type { Definition } from './stored-input.ts';

/** The most characters of a value: as many as every server accepts in a header. */
export const LONGEST_VALUE = 4_096;
/** A value that can stand in a header, and so has no line break. */
const VISIBLE_ASCII = /^[\x21-\x7e]+$/;
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;
const strictUtf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * What a value with the scheme Basic says when it is decoded: user and password, a colon between them. Undefined when it
 * is another scheme's, or no such pair of printable characters.
 */
export function basicPairOf(
  { scheme }: { readonly scheme?: string | undefined },
  value: string,
): string | undefined {
  if (scheme?.toLowerCase() !== 'basic' || !BASE64.test(value)) return undefined;
  const bytes = Buffer.from(value, 'base64');
  const pair = decoded(bytes);
  bytes.fill(0);
  return pair.includes(':') && !/[\u0000-\u001f\u007f]/.test(pair) ? pair : undefined;
}

function decoded(bytes: Buffer): string {
  try {
    return strictUtf8.decode(bytes);
  } catch {
    return bytes.toString('latin1');
  }
}

/** The secret half of a pair: the password, or the user when the password is empty. */
export function secretOfPair(pair: string): string {
  const colon = pair.indexOf(':');
  return pair.slice(colon + 1) || pair.slice(0, colon);
}

/**
 * A host that echoes what it is sent would confirm a guess of the value, since the right one comes back as stars. To try
 * all values of this many bits takes more than a day at ten million guesses a second, which fill a line of one gigabit.
 */
const LEAST_BITS = 40;
const SHORTEST = 8;
const LEAST_LETTERS = 5;
const ALPHABETS: readonly (readonly [RegExp, number])[] = [
  [/[0-9]/, 10],
  [/[a-z]/, 26],
  [/[A-Z]/, 26],
  [/[^0-9a-zA-Z]/, 32],
];

function isGuessable(secret: string): boolean {
  const letters = ALPHABETS.reduce((sum, [some, count]) => sum + (some.test(secret) ? count : 0), 0);
  const bits = secret.length * Math.log2(Math.max(1, letters));
  return secret.length < SHORTEST || bits < LEAST_BITS || new Set(secret).size < LEAST_LETTERS;
}

/** Why a value may not be used for what a definition says, as the end of the sentence "It …". */
export function valueFault(definition: Pick<Definition, 'scheme'>, value: string): string | undefined {
  if (value.length > LONGEST_VALUE || !VISIBLE_ASCII.test(value))
    return `cannot stand in a request: it must be 1 to ${LONGEST_VALUE} visible ASCII characters`;
  const basic = definition.scheme?.toLowerCase() === 'basic';
  const pair = basicPairOf(definition, value);
  if (basic && pair === undefined)
    return 'is not what the scheme Basic sends: the base64 of a user, a colon and a password';
  return isGuessable(pair === undefined ? value : secretOfPair(pair))
    ? `is too easy to guess for a secret that a host may send back: it needs ${SHORTEST} characters or more (9 of small letters alone, 13 of digits alone), of which ${LEAST_LETTERS} differ`
    : undefined;
}
