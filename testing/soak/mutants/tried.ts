/** The result of one mutant. */
export interface Tried {
  readonly file: string;
  /** The file, with the line if it is known. */
  readonly where: string;
  readonly change: string;
  /** 'not tried' means that its tests fail without the mutation, so a failure would mean nothing. */
  readonly verdict: 'killed' | 'timed out' | 'survived' | 'equivalent' | 'not tried';
}

/** The share of detected mutants among those that are not equivalent. */
export function scoreOf(tried: readonly Tried[]): number {
  const counted = tried.filter(({ verdict }) => verdict !== 'equivalent');
  const noticed = counted.filter(({ verdict }) => verdict === 'killed' || verdict === 'timed out');
  return counted.length === 0 ? 1 : noticed.length / counted.length;
}

/** The folder of the component, such as `brokers/egress` or `operator`. */
export const componentOf = (file: string): string => /^(?:brokers\/)?[^/]+/.exec(file)?.[0] ?? file;
