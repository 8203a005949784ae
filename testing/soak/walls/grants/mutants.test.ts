import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { expect, it } from 'vitest';
import { breakLine } from '../../mutants/by-hand/mutant.ts';
import { hasTest } from '../../mutants/by-hand/test-names.ts';
import type { Tests } from './mutant.ts';
import { GRANTS } from './mutants.ts';

const ROOT = resolve(import.meta.dirname, '../../../..');
const SAYS_WHO_MAY = /\b(GRANT|REVOKE|CREATE ROLE|ALTER ROLE|ALTER DATABASE) /;
/** Names and settings do not decide about rights. */
const SAYS_NOTHING = /\bRENAME TO\b|\bRESET default_transaction_read_only\b/;
const IS_COMMENT = /^\s*(--|\/\/|\*|\/\*)/;

it('each one is of text that is there once', () => {
  for (const { file, line, broken } of GRANTS)
    expect(breakLine(readFileSync(resolve(ROOT, file), 'utf8'), line, broken)).not.toContain(
      `${line}${line}`,
    );
});

it('each names tests that their file has', () => {
  const words = ({ pattern }: Tests) => pattern.replace(/^\(\?:PostgreSQL 18\.\*\)/, '').split('|');
  const missing = GRANTS.flatMap(({ tests }) =>
    words(tests).filter((one) => !hasTest(readFileSync(resolve(ROOT, tests.file), 'utf8'), one)),
  );
  expect(missing).toEqual([]);
});

it.each([...new Set(GRANTS.map(({ file }) => file))])('no statement of %s is left out', (file) => {
  const text = readFileSync(resolve(ROOT, file), 'utf8');
  const touched = new Set(
    GRANTS.filter((mutant) => mutant.file === file).flatMap(({ line }) => {
      const at = text.indexOf(line);
      const first = text.slice(0, at).split('\n').length;
      return line.split('\n').map((_, i) => first + i);
    }),
  );
  const lines = text.split('\n').map((line, i) => [i + 1, line] as const);
  const statements = lines.filter(
    ([, line]) => SAYS_WHO_MAY.test(line) && !IS_COMMENT.test(line) && !SAYS_NOTHING.test(line),
  );
  expect(statements.length).toBeGreaterThan(0);
  expect(statements.filter(([number]) => !touched.has(number))).toEqual([]);
});
