/** The text, cut to at most `longest` UTF-16 units and never inside a character. */
export function clipped(text: string, longest: number): string {
  const whole = text.toWellFormed();
  if (whole.length <= longest) return whole;
  return `${whole.slice(0, longest - 1).replace(/[\ud800-\udbff]$/, '')}…`;
}

/** The text of somebody else as one short line, without characters that a terminal would interpret. */
export function oneLine(text: string, longest: number): string {
  const line = text
    .slice(0, 4 * longest)
    .replace(/[\p{C}\p{Z}]+/gu, ' ')
    .trim();
  return clipped(line, longest);
}
