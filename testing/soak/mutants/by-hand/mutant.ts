/** A file of tests, and the part of their names that selects one of the servers that they run on. */
interface Suite {
  readonly file: string;
  readonly on?: string;
}

/** One line of the database broker that is replaced by a wrong one, and the test that must fail then. */
export interface Mutant {
  /** A sentence about what the line of code decides. */
  readonly decision: string;
  readonly file: string;
  /** Occurs once in the file. */
  readonly line: string;
  readonly broken: string;
  readonly suite: Suite;
  readonly test: string;
}

type Row = readonly [decision: string, line: string, broken: string, suite: Suite, test: string];

/** The mutants of one file of the broker. */
export function mutantsOf(file: string, rows: readonly Row[]): Mutant[] {
  return rows.map(([decision, line, broken, suite, test]) => ({
    ...{ decision, file: `brokers/db/${file}`, line, broken, test },
    suite: { ...suite, file: `brokers/db/${suite.file}` },
  }));
}

/** Matches the full name of the mutant's test, including its groups. */
export function patternOf({ suite, test }: Mutant): string {
  const own = test.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&');
  return suite.on === undefined ? own : `${suite.on}.*${own}`;
}

/** @throws Error unless the line occurs once, since a mutant of a missing line proves nothing */
export function breakLine(text: string, line: string, broken: string): string {
  const parts = text.split(line);
  if (parts.length !== 2)
    throw new Error(`${JSON.stringify(line)} occurs ${parts.length - 1} times instead of once`);
  return parts.join(broken);
}
