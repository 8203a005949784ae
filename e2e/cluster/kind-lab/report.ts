interface Night {
  readonly wrong: readonly string[];
  /** What this run left out, and why. */
  readonly leftOut: readonly string[];
  readonly minutes: number;
}

/**
 * The last lines of `npm run nightly`. GitHub shows lines with this prefix on the page of the run, not only in its
 * log.
 */
export function report({ wrong, leftOut, minutes }: Night, onGitHub: boolean): string {
  const ending = wrong.length === 0 ? 'nothing left behind' : 'failed';
  const told = leftOut.map((one) => `${onGitHub ? '::warning::' : ''}left out: ${one}`);
  return [...wrong, ...told, `${minutes.toFixed(1)} minutes, ${ending}`].join('\n');
}
