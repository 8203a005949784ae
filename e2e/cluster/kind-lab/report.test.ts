import { expect, test } from 'vitest';
import { report } from './report.ts';

const leftOut = ['the images for both platforms, since they are built as root'];

test('a run says what it left out, also when nothing is wrong', () => {
  expect(report({ wrong: [], leftOut, minutes: 17.04 }, false)).toBe(
    'left out: the images for both platforms, since they are built as root\n17.0 minutes, nothing left behind',
  );
});

test('GitHub shows that on the page of the run', () => {
  expect(report({ wrong: [], leftOut, minutes: 1 }, true)).toMatch(/^::warning::left out: the images/);
});

test('a run in which something is wrong has failed, and says what', () => {
  const wrong = ['the suites failed (1)', 'now there: container left'];
  expect(report({ wrong, leftOut: [], minutes: 2 }, false)).toBe(
    'the suites failed (1)\nnow there: container left\n2.0 minutes, failed',
  );
});
