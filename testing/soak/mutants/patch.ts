/** The new lines of each file, from a patch without context. */
export function changedLines(patch: string): ReadonlyMap<string, ReadonlySet<number>> {
  const found = new Map<string, Set<number>>();
  let lines = new Set<number>();
  for (const text of patch.split('\n')) {
    const file = /^\+\+\+ b\/(.*)$/.exec(text)?.[1];
    if (file !== undefined) {
      lines = new Set();
      found.set(file, lines);
    }
    const [, first, count = '1'] = /^@@ -\S+ \+(\d+)(?:,(\d+))? @@/.exec(text) ?? [];
    if (first !== undefined) for (let i = 0; i < Number(count); i += 1) lines.add(Number(first) + i);
  }
  return found;
}
