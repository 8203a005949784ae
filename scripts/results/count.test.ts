import { readdir } from 'node:fs/promises';
import { resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { countOf, lastLine, type Report, sumOf, unrun, type Wanted } from './count.ts';
import { permittedOn, SUITES } from './expected.ts';

const ROOT = resolve(import.meta.dirname, '../..');

type Result = Report['testResults'][number];
const test = (fullName: string, status: string, why: readonly string[] = []) => ({
  fullName,
  status,
  failureMessages: why,
});
const file = (name: string, assertionResults: Result['assertionResults'], status = 'passed'): Result => ({
  name,
  status,
  message: status === 'failed' ? 'Error: it broke\n    at x' : '',
  assertionResults,
});
const count = (results: readonly Result[], more: Partial<Wanted> = {}) =>
  countOf(
    { testResults: results },
    { permitted: permittedOn('native'), clean: true, files: [], title: 'unit tests', ...more },
  );

describe('a run', () => {
  it('counts each broken file, each failed test and each that passed', () => {
    const broken = (name: string) => file(name, [test('a', 'skipped'), test('b', 'pending')], 'failed');
    const results = [
      broken('a.test.ts'),
      broken('b.test.ts'),
      file(
        'c.test.ts',
        [test('c one', 'failed', ['\u001b[31mError: no\u001b[39m\n  at y']), test('c two', 'passed')],
        'failed',
      ),
    ];
    expect(count(results, { clean: false })).toEqual({
      passed: 1,
      failed: 3,
      skipped: 0,
      failures: [
        'a.test.ts: outside its tests\n    Error: it broke',
        'b.test.ts: outside its tests\n    Error: it broke',
        'c.test.ts: c one\n    Error: no',
      ],
    });
  });

  it('fails for a test that was skipped without permission, unless its file is permitted for this run', () => {
    const [ssrf, tools] = ['brokers/egress/ssrf.test.ts', 'brokers/egress/clients.test.ts'];
    const results = [file(ssrf, [test('a guess', 'skipped')]), file(tools, [test('git', 'skipped')])];
    expect(count(results)).toMatchObject({ failed: 1, skipped: 1 });
    expect(count(results).failures[0]).toContain(`${ssrf}: a guess`);
    expect(count(results, { permitted: permittedOn('native', [ssrf]) })).toMatchObject({
      failed: 0,
      skipped: 2,
    });
  });

  it('permits on kind what only a node of our own can show, and nothing else of those suites', () => {
    const suite = 'e2e/suites/enforcement.test.ts';
    const results = [
      file(suite, [
        test('walls finds what a fresh probe reaches while nothing is enforced', 'skipped'),
        test('walls are tried once on each node', 'skipped'),
      ]),
    ];
    expect(count(results, { permitted: permittedOn('kind') })).toMatchObject({ failed: 1, skipped: 1 });
    expect(count(results)).toMatchObject({ failed: 2, skipped: 0 });
  });

  it('reports a suite without a result', () => {
    const all = SUITES.slice(1).map((name) => file(name, [test('a', 'passed')]));
    expect(count(all, { files: SUITES })).toMatchObject({ failed: 1, passed: SUITES.length - 1 });
    expect(count(all, { files: SUITES }).failures[0]).toContain(`${SUITES[0]}: missing`);
  });

  it('fails if vitest reports a failure, also if no test failed', () => {
    expect(count([file('a.test.ts', [test('a', 'passed')])], { clean: false }).failures).toEqual([
      'unit tests: failed outside of all files',
    ]);
  });

  it('reports a file of tests that no project has run', () => {
    expect(unrun(['a.test.ts', 'moved/b.test.ts'], ['a.test.ts'])).toEqual([
      expect.stringContaining('moved/b.test.ts: missing'),
    ]);
  });

  it('ends with a summary line', () => {
    const one = { passed: 2, failed: 1, skipped: 0, failures: ['x'] };
    expect(lastLine(sumOf([one, one]))).toBe('4 passed, 2 failed');
    expect(lastLine({ ...one, skipped: 3 })).toBe('2 passed, 1 failed, 3 skipped');
  });
});

it('every existing suite is expected', async () => {
  const there = (await readdir(resolve(ROOT, 'e2e/suites'))).filter((name) => name.endsWith('.test.ts'));
  expect([...SUITES].toSorted()).toEqual(there.map((name) => `e2e/suites/${name}`).toSorted());
});
