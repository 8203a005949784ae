/** The text is JSON, but has duplicate or dangerous keys, or is too deep or too long. */
export class StrictJsonError extends Error {
  constructor(message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'StrictJsonError';
  }
}

export interface JsonLimits {
  /** The most elements of all arrays together, where an empty array counts as one; objects have the same bound. */
  readonly elements: number;
  /** The most members of one object. */
  readonly members: number;
}

const LIMITS: JsonLimits = { elements: 10_000, members: 10_000 };
const MAX_DEPTH = 16;
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Parses bytes as strict UTF-8 JSON without duplicate keys and `__proto__`, at most 16 levels deep. */
export function parseStrictJson(bytes: Uint8Array, limits: JsonLimits = LIMITS): unknown {
  scan(bytes, limits);
  try {
    return JSON.parse(utf8.decode(bytes));
  } catch {
    // The cause is left out: the parser's message quotes the text, which may hold a token.
    throw notJson();
  }
}

const [QUOTE, BACKSLASH, COMMA] = [0x22, 0x5c, 0x2c];
const [OPEN_OBJECT, CLOSE_OBJECT, OPEN_ARRAY, CLOSE_ARRAY] = [0x7b, 0x7d, 0x5b, 0x5d];

/** An object or array that has not ended yet. */
interface Open {
  readonly isObject: boolean;
  /** The number of members that ended with a comma. */
  ended: number;
  /** Whether the next string is a key. */
  atKey: boolean;
  /** Created for the second key. */
  keys: Set<string> | undefined;
  firstKey: string | undefined;
}

/**
 * Checks depth, number and keys in one pass over the bytes, before any value is created from them. Invalid JSON may
 * pass, since the parser refuses it. No byte is read more than three times.
 */
export function scan(bytes: Uint8Array, { elements, members }: JsonLimits): void {
  const open: Open[] = [];
  let top: Open | undefined;
  let [inArrays, objects] = [0, 0];
  const { length } = bytes;
  for (let i = 0; i < length; i += 1) {
    const byte = bytes[i];
    if (byte === QUOTE) {
      const end = endOfString(bytes, i);
      if (top?.atKey === true) {
        top.atKey = false;
        addKey(top, keyOf(bytes, i, end));
      }
      i = end;
    } else if (byte === COMMA) {
      if (top === undefined) continue;
      if (top.isObject) top.ended += 1;
      else inArrays += 1;
      if (top.ended >= members || inArrays > elements) throw new StrictJsonError('too many');
      top.atKey = top.isObject;
    } else if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) {
      const isObject = byte === OPEN_OBJECT;
      if (isObject) objects += 1;
      else inArrays += 1;
      if (inArrays > elements || objects > elements + MAX_DEPTH) throw new StrictJsonError('too many');
      top = { isObject, ended: 0, atKey: isObject, keys: undefined, firstKey: undefined };
      if (open.push(top) > MAX_DEPTH) throw new StrictJsonError('nested too deeply');
    } else if (byte === CLOSE_OBJECT || byte === CLOSE_ARRAY) {
      open.pop();
      top = open.at(-1);
    }
  }
}

/** The index of the closing quotation mark, or the end of the text when there is none. */
function endOfString(bytes: Uint8Array, start: number): number {
  let i = start + 1;
  while (i < bytes.length && bytes[i] !== QUOTE) i += bytes[i] === BACKSLASH ? 2 : 1;
  return i;
}

function keyOf(bytes: Uint8Array, start: number, end: number): string {
  const text = utf8Lossy.decode(bytes.subarray(start + 1, end));
  if (!text.includes('\\')) return text;
  try {
    return JSON.parse(`"${text}"`) as string;
  } catch {
    throw notJson();
  }
}

/** Decodes keys before the strict decoder has checked the whole text. */
const utf8Lossy = new TextDecoder('utf-8', { ignoreBOM: true });

function addKey(to: Open, key: string): void {
  if (key === '__proto__') throw new StrictJsonError('forbidden key');
  if (to.firstKey === undefined) {
    to.firstKey = key;
    return;
  }
  to.keys ??= new Set([to.firstKey]);
  if (to.keys.has(key)) throw new StrictJsonError('duplicate key');
  to.keys.add(key);
}

function notJson(): StrictJsonError {
  return new StrictJsonError('not JSON in UTF-8');
}
