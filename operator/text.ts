/** At most so many units of UTF-16, without half of a character where it is cut. */
export function clipped(text: string, longest: number): string {
  const whole = text.toWellFormed();
  if (whole.length <= longest) return whole;
  return `${whole.slice(0, longest - 1).replace(/[\ud800-\udbff]$/, '')}…`;
}

/** Somebody else's words, as one short line without anything that a terminal would obey. */
export function oneLine(text: string, longest: number): string {
  const line = text
    .slice(0, 4 * longest)
    .replace(/[\p{C}\p{Z}]+/gu, ' ')
    .trim();
  return clipped(line, longest);
}
