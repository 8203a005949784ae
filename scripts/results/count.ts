/** What a run of vitest came to. No file is read in here. */
import { isPermitted, type Permitted, SUITES } from './expected.ts';

export interface Count {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
  /** What did not pass, a line each. */
  readonly failures: readonly string[];
}

/** The format of vitest's reporter `json`; names of files are relative here. */
export interface Report {
  readonly testResults: readonly {
    readonly name: string;
    readonly status: string;
    readonly message: string;
    readonly assertionResults: readonly {
      readonly fullName: string;
      readonly status: string;
      readonly failureMessages: readonly string[];
    }[];
  }[];
}

export interface Wanted {
  readonly permitted: Permitted;
  /** Whether vitest itself says that all went well. */
  readonly clean: boolean;
  /** Files that have to be among the results. */
  readonly files: readonly string[];
  readonly title: string;
}

export const NOTHING: Count = { passed: 0, failed: 0, skipped: 0, failures: [] };

const ESCAPES = new RegExp(`${String.fromCharCode(27)}\\[[0-9;]*m`, 'g');
const line = (file: string, test: string, why = '') =>
  `${file}: ${test}\n    ${why.replace(ESCAPES, '').split('\n')[0]?.slice(0, 300)}`;

/**
 * Each test that failed, each file that failed outside its tests, each test that was skipped without leave and each file
 * that is missing is one failure.
 */
export function countOf({ testResults }: Report, { permitted, clean, files, title }: Wanted): Count {
  let [passed, skipped] = [0, 0];
  const failures: string[] = [];
  for (const { name, status, message, assertionResults } of testResults) {
    const failed = assertionResults.filter((test) => test.status === 'failed');
    passed += assertionResults.filter((test) => test.status === 'passed').length;
    failures.push(...failed.map(({ fullName, failureMessages: [why] }) => line(name, fullName, why)));
    // With it its other tests were not tried: that is told once.
    const isBroken = status === 'failed' && failed.length === 0;
    if (isBroken) failures.push(line(name, 'outside its tests', message));
    for (const { fullName, status: how } of assertionResults) {
      if (how === 'passed' || how === 'failed' || isBroken) continue;
      if (isPermitted(permitted, name, fullName)) skipped += 1;
      else
        failures.push(
          line(name, fullName, 'skipped, and nothing permits that (scripts/results/expected.ts)'),
        );
    }
  }
  const seen = new Set(testResults.map(({ name }) => name));
  const missing = files.filter((file) => !seen.has(file));
  failures.push(...missing.map((file) => line(file, 'missing', 'it was expected, and no result of it came')));
  if (!clean && failures.length === 0) failures.push(`${title}: failed outside of all files`);
  return { passed, failed: failures.length, skipped, failures };
}

/** The suites of a cluster, whichever of them are there. */
export const expectedOf = (project: string): readonly string[] => (project === 'e2e' ? SUITES : []);

/** What is a file of tests and was run by no project. */
export const unrun = (there: readonly string[], ran: readonly string[]): string[] =>
  there
    .filter((file) => !ran.includes(file))
    .map((file) => line(file, 'missing', 'it is a file of tests, and no project has run it'));

export function sumOf(counts: readonly Count[]): Count {
  const total = (key: 'passed' | 'failed' | 'skipped') => counts.reduce((sum, count) => sum + count[key], 0);
  const failures = counts.flatMap((count) => count.failures);
  return { passed: total('passed'), failed: total('failed'), skipped: total('skipped'), failures };
}

export const lastLine = ({ passed, failed, skipped }: Count): string =>
  `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`;
