/** One statement that is omitted or widened, and the tests that must detect it. */

export interface Mutant {
  readonly file: string;
  /** Occurs once in the file. */
  readonly line: string;
  readonly broken: string;
  readonly change: string;
  readonly tests: Tests;
}

/** A file of tests, and a pattern for the relevant ones. */
export interface Tests {
  readonly file: string;
  readonly pattern: string;
}

type Row = readonly [change: string, line: string, broken: string, tests?: Tests];

const POWERS: Tests = { file: 'brokers/db/isolation/powers.test.ts', pattern: '' };

/** The mutants of one file of the brokers; the usual tests detect them unless a row names others. */
export const mutantsOf = (file: string, rows: readonly Row[], usual = POWERS): Mutant[] =>
  rows.map(([change, line, broken, tests = usual]) => ({
    ...{ change, line, broken, tests },
    file: `brokers/${file}`,
  }));
