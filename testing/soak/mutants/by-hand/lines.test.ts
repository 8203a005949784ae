import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { BY_HAND } from './list.ts';
import { breakLine } from './mutant.ts';
import { hasTest } from './test-names.ts';

const read = (file: string) => readFileSync(join(import.meta.dirname, '../../../..', file), 'utf8');

it.each(BY_HAND.map((mutant) => [mutant.decision, mutant] as const))(
  'the line is there once that decides that %s',
  (_, { file, line, broken }) => {
    const text = read(file);
    expect(breakLine(text, line, broken)).not.toBe(text);
  },
);

it('each names a test that its file has', () => {
  expect(BY_HAND.length).toBeGreaterThan(0);
  expect(BY_HAND.filter(({ suite, test }) => !hasTest(read(suite.file), test))).toEqual([]);
});
