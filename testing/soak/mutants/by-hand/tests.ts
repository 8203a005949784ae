import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';

/** The full name of a test that ran, including its groups, and whether it passed. */
export interface Ran {
  readonly name: string;
  readonly passed: boolean;
}

interface VitestReport {
  readonly testResults: readonly {
    readonly assertionResults: readonly { readonly fullName: string; readonly status: string }[];
  }[];
}

/** Runs the tests of a file whose names match. */
export async function runTests(root: string, file: string, pattern: string): Promise<readonly Ran[]> {
  const report = join(root, 'mutant-report.json');
  await rm(report, { force: true });
  const words = ['--project', 'unit', '--project', 'integration', file, '-t', pattern];
  const child = spawn(
    process.execPath,
    ['node_modules/vitest/vitest.mjs', 'run', ...words, '--reporter=json', `--outputFile=${report}`],
    { cwd: root, stdio: ['ignore', 'ignore', 'pipe'] },
  );
  let said = '';
  child.stderr.on('data', (bytes) => {
    said = `${said}${bytes}`.slice(-2_000);
  });
  await once(child, 'close');
  const text = await readFile(report, 'utf8').catch((error: unknown) => {
    throw new Error(`vitest wrote no report about ${file}: ${said}`, { cause: error });
  });
  const { testResults } = JSON.parse(text) as VitestReport;
  return testResults
    .flatMap(({ assertionResults }) => assertionResults)
    .filter(({ status }) => status === 'passed' || status === 'failed')
    .map(({ fullName, status }) => ({ name: fullName, passed: status === 'passed' }));
}
