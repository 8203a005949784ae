import { quoted } from './found.ts';

/** A known name that differs by one or two letters: most unknown properties are slips. */
export function suggestion(key: string, known: readonly string[]): string {
  if (key.length > 64) return '';
  const near = known.find((name) => distance(key.toLowerCase(), name) <= (name.length > 4 ? 2 : 1));
  return near === undefined ? '' : `; was ${quoted(near)} meant?`;
}

function distance(a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const change = (previous[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      row.push(Math.min(change, (previous[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1));
    }
    previous = row;
  }
  return previous[b.length] ?? 0;
}
