/** What became of one mutant. */
export interface Tried {
  readonly file: string;
  /** The file, with the line where that is known. */
  readonly where: string;
  readonly change: string;
  /** 'not tried': its tests do not pass unbroken, so that a failure would say nothing. */
  readonly verdict: 'killed' | 'timed out' | 'survived' | 'equivalent' | 'not tried';
}

/** The share of mutants that were noticed among those that change anything. */
export function scoreOf(tried: readonly Tried[]): number {
  const counted = tried.filter(({ verdict }) => verdict !== 'equivalent');
  const noticed = counted.filter(({ verdict }) => verdict === 'killed' || verdict === 'timed out');
  return counted.length === 0 ? 1 : noticed.length / counted.length;
}

/** The folder that a reader looks for: `brokers/egress`, `operator`. */
export const componentOf = (file: string): string => /^(?:brokers\/)?[^/]+/.exec(file)?.[0] ?? file;
