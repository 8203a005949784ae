import { printable, printableAscii } from './error.ts';

/** The most characters of a value that a message repeats. */
const SHOWN = 40;

/** What was found, for a message: short, escaped, and never more than its kind where the value is hidden. */
export function found(
  value: unknown,
  options: { readonly hidden?: boolean; readonly ascii?: boolean } = {},
): string {
  if (value === undefined) return 'nothing';
  if (value === null) return 'null';
  if (Array.isArray(value)) return value.length === 0 ? 'an empty list' : 'a list';
  if (typeof value === 'object') return 'an object';
  if (options.hidden) return typeof value === 'string' ? 'text (not shown)' : `a ${typeof value}`;
  if (typeof value === 'string') return quoted(value, options.ascii ?? false);
  return String(value);
}

/** Text in quotes, its beginning alone when it is long. */
export function quoted(text: string, ascii = false): string {
  // A code point has at most two units: what is cut here is never looked at.
  const points = [...text.slice(0, 2 * (SHOWN + 1))];
  const short = points.length > SHOWN;
  const start = (short ? points.slice(0, SHOWN).join('') : text)
    .replaceAll('\\', '\\\\')
    .replaceAll('"', '\\"');
  return `"${ascii ? printableAscii(start) : printable(start)}${short ? '…' : ''}"`;
}

export const plural = (count: number, one: string): string => `${count} ${one}${count === 1 ? '' : 's'}`;
