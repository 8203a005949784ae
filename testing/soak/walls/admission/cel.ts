/** Finds the terms of a CEL expression that `&&` and `||` join, by their positions. It parses only as much of the language as that needs. */

export interface Term {
  readonly joinedBy: '&&' | '||';
  readonly start: number;
  readonly end: number;
}

type Mark = { readonly text: string; readonly at: number };

/** A part of the expression outside of all brackets. */
interface Level {
  readonly marks: readonly Mark[];
  /** The bracketed parts. */
  readonly groups: readonly (readonly [start: number, end: number])[];
}

/** All terms, outer ones before inner ones. */
export function termsOf(text: string): Term[] {
  return termsIn(text, 0, text.length);
}

/** The expression without a term, so that the rest decides. */
export function without(text: string, { joinedBy, start, end }: Term): string {
  return `${text.slice(0, start)} ${joinedBy === '&&' ? 'true' : 'false'} ${text.slice(end)}`;
}

function termsIn(text: string, start: number, end: number): Term[] {
  const { marks, groups } = levelOf(text, start, end);
  // The operators with the lowest precedence are split first.
  for (const words of [[',', '?', ':'], ['||'], ['&&']]) {
    const found = marks.filter((mark) => words.includes(mark.text));
    if (found.length === 0) continue;
    const starts = [start, ...found.map(({ at, text: { length } }) => at + length)];
    const parts = starts.map((from, i) => [from, found[i]?.at ?? end] as const);
    const [joinedBy] = words;
    const own =
      joinedBy === '||' || joinedBy === '&&'
        ? parts.map(([from, to]) => ({ joinedBy, start: from, end: to }) as const)
        : [];
    return [...own, ...parts.flatMap(([from, to]) => termsIn(text, from, to))];
  }
  return groups.flatMap(([from, to]) => termsIn(text, from, to));
}

function levelOf(text: string, start: number, end: number): Level {
  const marks: Mark[] = [];
  const groups: [number, number][] = [];
  let depth = 0;
  let opened = start;
  for (let at = start; at < end; at++) {
    const char = text.charAt(at);
    if (char === '"' || char === "'") at = endOfString(text, at);
    else if ('([{'.includes(char)) {
      if (depth === 0) opened = at + 1;
      depth += 1;
    } else if (')]}'.includes(char)) {
      depth -= 1;
      if (depth === 0) groups.push([opened, at]);
    } else if (depth === 0) {
      const mark = markAt(text, at);
      if (mark !== undefined) {
        marks.push({ text: mark, at });
        at += mark.length - 1;
      }
    }
  }
  return { marks, groups };
}

function markAt(text: string, at: number): string | undefined {
  const two = text.slice(at, at + 2);
  if (two === '&&' || two === '||') return two;
  const char = text.charAt(at);
  // The `?` in `a.?b`, `a[?b]` and `{?a: b}` is not a ternary operator.
  if (char === '?') return '.[{'.includes(text.charAt(at - 1)) ? undefined : char;
  return char === ',' || char === ':' ? char : undefined;
}

function endOfString(text: string, start: number): number {
  const quote = text.charAt(start);
  let at = start + 1;
  while (at < text.length && text.charAt(at) !== quote) at += text.charAt(at) === '\\' ? 2 : 1;
  return at;
}
