import { expect, it } from 'vitest';
import { EQUIVALENT, isOf } from './equivalent.ts';
import { FILES, mutantsOfFile, ROOT } from './files.ts';
import { nearestTests, ownFirst } from './nearest.ts';
import { automaticMutants, mutated } from './operators.ts';
import { changedLines } from './patch.ts';
import { scoreOf, type Tried } from './tried.ts';

const mutantTexts = (text: string) => automaticMutants('x.ts', text).map((mutant) => mutated(text, mutant));

it('each file that is listed is there once, has mutants, and has unit tests', () => {
  const nearest = nearestTests(ROOT);
  expect(new Set(FILES).size).toBe(FILES.length);
  for (const file of FILES) {
    expect(mutantsOfFile(file), file).not.toEqual([]);
    expect(nearest(file), file).not.toEqual([]);
  }
});

it('each mutant that is said to be equivalent is one of its file, and has a reason', () => {
  for (const one of EQUIVALENT) {
    expect(FILES).toContain(one.file);
    expect(
      mutantsOfFile(one.file).filter((mutant) => isOf(one, mutant)),
      one.change,
    ).toHaveLength(1);
    expect(one.reason).not.toBe('');
  }
});

it.each([
  ['a condition is true, or false', 'if (a) b();', ['if (true) b();', 'if (false) b();', 'if (a) ;']],
  ['an operand is left out', 'x = a && b;', ['x = (a);', 'x = (b);']],
  ['a bound moves by one', 'x = a < b;', ['x = a <= b;']],
  ['what is equal is not', 'x = a === b;', ['x = a !== b;']],
  [
    'only the operator of a calculation changes',
    'x = (a + b) * c;',
    ['x = (a + b) / c;', 'x = (a - b) * c;'],
  ],
  ['a negation is taken back', 'x = !a;', ['x = !!a;']],
  ['a negation is taken back as a whole', 'x = !(a in b);', ['x = !!(a in b);']],
  ['a throw is left out', 'throw a;', [';']],
  ['a call is left out, awaited or not', 'await a();', [';']],
  [
    'a list is empty, or without one of its words',
    "x = ['a', 'b'];",
    ['x = [];', "x = [, 'b'];", "x = ['a', ];"],
  ],
  ['an answer is the other one', 'f = () => true;', ['f = () => false;']],
  ['a pattern is not anchored', 'x = /^a$/u;', ['x = /a$/u;', 'x = /^a/u;']],
  ['one is enough, or all are needed', 'x = a.some(f);', ['x = a.every(f);']],
])('%s', (_, text, expected) => {
  expect(mutantTexts(text)).toEqual(expected);
});

it('tells the tests that have a file’s name from the others', () => {
  expect(ownFirst('a/x.ts', ['a/x.test.ts', 'a/x-more.test.ts', 'a/xy.test.ts', 'b/x.test.ts'])).toEqual({
    own: ['a/x.test.ts', 'a/x-more.test.ts'],
    others: ['a/xy.test.ts', 'b/x.test.ts'],
  });
});

it('leaves alone what is gone at run time, and what only tells', () => {
  expect(mutantTexts("type A = [true, 'b']; interface B { c: false }; let d: false; log.info(d);")).toEqual(
    [],
  );
});

it('finds the lines that a patch has made', () => {
  const patch = [
    '--- a/x.ts',
    '+++ b/x.ts',
    '@@ -1,2 +1,0 @@',
    '-a',
    '-b',
    '@@ -9 +7,2 @@ f',
    '+c',
    '+d',
    '@@ -20 +19 @@',
  ];
  expect(changedLines(patch.join('\n'))).toEqual(new Map([['x.ts', new Set([7, 8, 19])]]));
});

it('counts what is noticed among what changes anything', () => {
  const of = (verdict: Tried['verdict']): Tried => ({ file: 'x.ts', where: 'x.ts:1', change: '', verdict });
  expect(scoreOf([of('killed'), of('timed out'), of('equivalent'), of('survived'), of('not tried')])).toBe(
    0.5,
  );
  expect(scoreOf([])).toBe(1);
});
