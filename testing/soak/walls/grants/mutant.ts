/** One statement left out or widened, and the tests that must show it. */

export interface Mutant {
  readonly file: string;
  /** Is there once. */
  readonly line: string;
  readonly broken: string;
  readonly change: string;
  readonly tests: Tests;
}

/** A file of tests, and a pattern of those in it that say something. */
export interface Tests {
  readonly file: string;
  readonly pattern: string;
}

type Row = readonly [change: string, line: string, broken: string, tests?: Tests];

const POWERS: Tests = { file: 'brokers/db/isolation/powers.test.ts', pattern: '' };

/** Mutants of one file of the brokers, which the usual tests show where a row names no others. */
export const mutantsOf = (file: string, rows: readonly Row[], usual = POWERS): Mutant[] =>
  rows.map(([change, line, broken, tests = usual]) => ({
    ...{ change, line, broken, tests },
    file: `brokers/${file}`,
  }));
