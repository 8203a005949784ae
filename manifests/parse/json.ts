import type { ErrorReport, Path } from './error.ts';
import { quoted } from './found.ts';

/** Deeper than any document of ours, shallower than any stack. */
export const DEPTH_LIMIT = 32;

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Bytes as text, when they are UTF-8. */
export function decode(bytes: Uint8Array, report: ErrorReport): string | undefined {
  const [a, b] = bytes;
  const zeroes = bytes.subarray(0, 4).includes(0);
  if ((a === 0xfe && b === 0xff) || (a === 0xff && b === 0xfe) || zeroes) {
    return void report([], 'encoding', 'must be UTF-8; this looks like UTF-16 or UTF-32');
  }
  try {
    return utf8.decode(bytes);
  } catch {
    return void report([], 'encoding', 'must be UTF-8; found bytes that are not');
  }
}

/** Whether text may be read: not empty, no byte order mark, whole characters. */
export function isReadable(text: string, report: ErrorReport): boolean {
  if (text.charCodeAt(0) === 0xfeff) report([], 'encoding', 'must not begin with a byte order mark (U+FEFF)');
  else if (text.trim() === '') report([], 'json', 'must be a JSON object; found nothing');
  else if (!text.isWellFormed())
    report([], 'unicode', 'must be whole Unicode characters; found half of a surrogate pair');
  else return true;
  return false;
}

export const tooMany = (most: number): string =>
  `must not have more than ${most} values altogether, which is what the largest legal document has`;

/** Ends the reading of text that is not JSON. */
class Malformed extends Error {
  readonly at: number;
  readonly path: Path;
  readonly rule: string;

  constructor(at: number, path: Path, message: string, rule = 'json') {
    super(message);
    this.at = at;
    this.path = [...path];
    this.rule = rule;
  }
}

/**
 * Reads one JSON document (RFC 8259, nothing more). A duplicate key or `__proto__` is reported, and the reading goes on
 * with the first value, so that all other errors are found too. Undefined when the text is no JSON, or has more values
 * than `most`.
 */
export function readJson(
  text: string,
  most: number,
  report: ErrorReport,
): { readonly value: unknown } | undefined {
  try {
    return { value: new Reader(text, most, report).document() };
  } catch (error) {
    if (!(error instanceof Malformed)) throw error;
    const before = text.slice(0, error.at);
    const line = before.split('\n').length;
    const column = error.at - before.lastIndexOf('\n');
    report(error.path, error.rule, `${error.message} (line ${line}, column ${column})`);
    return undefined;
  }
}

const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
// Everything up to the closing quote that needs no second look.
const PLAIN = /[^"\\\u0000-\u001F]*/y;
const ESCAPE = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y;

class Reader {
  private at = 0;
  private values = 0;
  private readonly path: (string | number)[] = [];
  private readonly text: string;
  private readonly most: number;
  private readonly report: ErrorReport;

  constructor(text: string, most: number, report: ErrorReport) {
    this.text = text;
    this.most = most;
    this.report = report;
  }

  document(): unknown {
    this.space();
    const value = this.value();
    this.space();
    if (this.at < this.text.length) this.fail('has something after the end of its one JSON document');
    return value;
  }

  private value(): unknown {
    this.values += 1;
    if (this.values > this.most) throw new Malformed(this.at, [], tooMany(this.most), 'values');
    switch (this.text.charCodeAt(this.at)) {
      case 0x7b:
        return this.nested(() => this.object());
      case 0x5b:
        return this.nested(() => this.list());
      case 0x22:
        return this.string();
      case 0x74:
        return this.word('true', true);
      case 0x66:
        return this.word('false', false);
      case 0x6e:
        return this.word('null', null);
      default:
        return this.number();
    }
  }

  private nested<T>(read: () => T): T {
    if (this.path.length >= DEPTH_LIMIT) {
      throw new Malformed(this.at, this.path, `must not nest deeper than ${DEPTH_LIMIT} levels`, 'depth');
    }
    this.at += 1;
    this.space();
    return read();
  }

  private object(): Record<string, unknown> {
    const object: Record<string, unknown> = {};
    if (this.take(0x7d)) return object;
    for (;;) {
      if (this.text.charCodeAt(this.at) !== 0x22)
        this.fail('must have a property name in double quotes here');
      const key = this.string();
      this.path.push(key);
      this.space();
      if (!this.take(0x3a)) this.fail('must have a colon after the property name');
      this.space();
      const value = this.value();
      if (key === '__proto__') this.report(this.path, 'forbidden-key', 'must not be named __proto__');
      else if (Object.hasOwn(object, key)) {
        this.report(this.path, 'duplicate-key', 'must not be given twice in one object');
      } else object[key] = value;
      this.path.pop();
      this.space();
      if (this.take(0x7d)) return object;
      if (!this.take(0x2c)) this.fail('must have a comma or the end of the object here');
      this.space();
    }
  }

  private list(): unknown[] {
    const list: unknown[] = [];
    if (this.take(0x5d)) return list;
    for (;;) {
      this.path.push(list.length);
      list.push(this.value());
      this.path.pop();
      this.space();
      if (this.take(0x5d)) return list;
      if (!this.take(0x2c)) this.fail('must have a comma or the end of the list here');
      this.space();
    }
  }

  private string(): string {
    const start = this.at + 1;
    let end = this.plain(start);
    if (this.text.charCodeAt(end) === 0x22) {
      this.at = end + 1;
      return this.text.slice(start, end);
    }
    // One by one: a group that repeats would need stack for each of them.
    for (ESCAPE.lastIndex = end; ESCAPE.test(this.text); ESCAPE.lastIndex = end) {
      end = this.plain(ESCAPE.lastIndex);
    }
    if (this.text.charCodeAt(end) !== 0x22) {
      this.at = end;
      this.fail('must end its string with a double quote, and write control characters as \\u escapes');
    }
    this.at = end + 1;
    const value = JSON.parse(this.text.slice(start - 1, end + 1)) as string;
    if (!value.isWellFormed())
      this.report(this.path, 'unicode', 'must not have half of a surrogate pair in a string');
    return value;
  }

  /** Where what needs no second look ends. */
  private plain(start: number): number {
    PLAIN.lastIndex = start;
    PLAIN.test(this.text);
    return PLAIN.lastIndex;
  }

  private number(): number {
    NUMBER.lastIndex = this.at;
    const match = NUMBER.exec(this.text);
    if (match === null) {
      const next = String.fromCodePoint(this.text.codePointAt(this.at) ?? 0);
      const what = this.at < this.text.length ? quoted(next, true) : 'the end of the text';
      this.fail(`must have a JSON value here; found ${what}`);
    }
    this.at += match[0].length;
    return Number(match[0]);
  }

  private word<T>(word: string, value: T): T {
    if (!this.text.startsWith(word, this.at)) this.fail(`must have ${word} or another JSON value here`);
    this.at += word.length;
    return value;
  }

  private take(code: number): boolean {
    if (this.text.charCodeAt(this.at) !== code) return false;
    this.at += 1;
    return true;
  }

  private space(): void {
    for (;;) {
      const code = this.text.charCodeAt(this.at);
      if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) return;
      this.at += 1;
    }
  }

  private fail(message: string): never {
    throw new Malformed(this.at, this.path, message);
  }
}
