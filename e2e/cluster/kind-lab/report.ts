interface Night {
  readonly wrong: readonly string[];
  /** What this run left out, and why. */
  readonly leftOut: readonly string[];
  readonly minutes: number;
}

/** The last words of `npm run nightly`. GitHub shows a line that begins so on the page of the run, and not in its log alone. */
export function report({ wrong, leftOut, minutes }: Night, onGitHub: boolean): string {
  const ending = wrong.length === 0 ? 'nothing left behind' : 'failed';
  const told = leftOut.map((one) => `${onGitHub ? '::warning::' : ''}left out: ${one}`);
  return [...wrong, ...told, `${minutes.toFixed(1)} minutes, ${ending}`].join('\n');
}
