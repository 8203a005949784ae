/** One thing that is wrong with a manifest or a resource. */
export interface ManifestError {
  /** Where: a JSON pointer (RFC 6901); empty for the whole document. */
  readonly pointer: string;
  /** Which rule: a short name that does not change. */
  readonly rule: string;
  /** What is wrong, what is allowed, and what was found; safe to print. */
  readonly message: string;
}

/** A broken rule, of a value whose place the caller knows. */
export interface Fault {
  readonly rule: string;
  readonly message: string;
  /** The property or item that is at fault, when it is not the value itself. */
  readonly at?: string | number;
}

/** No fault in what is by far the most common case: nothing is allocated for it. */
export const NO_FAULTS: readonly Fault[] = [];

export type ErrorReport = (path: Path, rule: string, message: string) => void;

/** The most errors that are reported, which also bounds the cost of hostile input. */
export const MOST_ERRORS = 1000;
/** The most characters of all pointers together, so that a key of many MiB is not repeated with each error in it. */
const MOST_POINTERS = 1_048_576;

/** Collects errors up to a bound; the last one says when there are more. */
export function errorList(): {
  readonly errors: ManifestError[];
  readonly report: ErrorReport;
  full(): boolean;
} {
  const errors: ManifestError[] = [];
  let pointers = 0;
  let more = false;
  const report: ErrorReport = (path, rule, message) => {
    if (more) return;
    more = errors.length >= MOST_ERRORS || pointers > MOST_POINTERS;
    if (more) {
      const message = `has more than ${errors.length} errors; mend these first`;
      errors.push({ pointer: '', rule: 'too-many-errors', message });
      return;
    }
    const pointer = pointerTo(path);
    pointers += pointer.length;
    errors.push({ pointer, rule, message });
  };
  return { errors, report, full: () => more };
}

/** The way from the whole document to a value in it. */
export type Path = readonly (string | number)[];

/** A path as a JSON pointer. */
export const pointerTo = (path: Path): string => path.map((key) => `/${token(key)}`).join('');

const token = (key: string | number): string =>
  typeof key === 'number' ? String(key) : key.replaceAll('~', '~0').replaceAll('/', '~1');

/** Errors as one line of text: the first few, and how many more. */
export function summarize(errors: readonly ManifestError[], most = 10): string {
  const shown = errors
    .slice(0, most)
    .map(({ pointer, message }) => `${printable(pointer) || '/'}: ${message}`);
  const more = errors.length - shown.length;
  return shown.join('; ') + (more > 0 ? `; and ${more} more` : '');
}

/** Control, formatting, separator, private and unassigned characters: what changes or hides a line of text. */
const UNPRINTABLE = /[\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/gu;
const NOT_ASCII = /[^ -~]/gu;
const numbered = (char: string) => `\\u{${char.codePointAt(0)?.toString(16).toUpperCase().padStart(4, '0')}}`;

/** Text with everything escaped that a terminal or a reader could be misled by. */
export const printable = (text: string): string => text.replace(UNPRINTABLE, numbered);

/** Works like `printable`, and also reveals letters that look like ASCII but are not. */
export const printableAscii = (text: string): string => text.replace(NOT_ASCII, numbered);
