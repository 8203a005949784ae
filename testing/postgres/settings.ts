import type { PostgresMajor } from './binaries.ts';

/** The lines of `settings.conf` that a major version knows; one that it does not know would keep it from starting. */
export function neighbourSettings(text: string, major: PostgresMajor): string {
  const known = (line: string) => Number(/# (\d+)$/.exec(line)?.[1] ?? 0) <= Number(major);
  return `${text.split('\n').filter(known).join('\n')}\n`;
}
