import { expect, test } from 'vitest';
import { type Content, Ledger } from './ledger.ts';

const one: Content = { sha256: 'aa', size: 1 };
const two: Content = { sha256: 'bb', size: 1 };

test('what was stored is there, with its content', () => {
  const ledger = new Ledger();
  ledger.stored('d/a', one, 1);
  expect(ledger.judgeRead('d/a', one)).toBeUndefined();
  expect(ledger.judgeRead('d/a', two)).toContain('has other content');
  expect(ledger.judgeRead('d/a', undefined)).toContain('does not exist');
});

test('what was deleted stays deleted, until it is stored again', () => {
  const ledger = new Ledger();
  ledger.stored('d/a', one, 1);
  ledger.deleted('d/a', 1);
  expect(ledger.judgeRead('d/a', undefined)).toBeUndefined();
  expect(ledger.judgeRead('d/a', one)).toContain('was deleted, but exists');
  expect(ledger.gone()).toEqual(['d/a']);
  ledger.stored('d/a', two, 1);
  expect(ledger.judgeRead('d/a', two)).toBeUndefined();
  expect(ledger.gone()).toEqual([]);
});

test('a list has what was stored below its prefix and nothing else', () => {
  const ledger = new Ledger();
  ledger.stored('d/a', one, 1);
  ledger.stored('d/b', one, 1);
  ledger.stored('e/a', one, 1);
  ledger.deleted('d/b', 1);
  expect(ledger.judgeList('d/', [{ key: 'd/a', size: 1 }])).toEqual([]);
  expect(ledger.judgeList('d/', [])).toEqual(['d/a was stored with 1 bytes, but is listed with undefined']);
  expect(ledger.judgeList('d/', [{ key: 'd/a', size: 2 }])).toHaveLength(1);
  const more = ['d/a', 'd/b', 'd/c'].map((key) => ({ key, size: 1 }));
  expect(ledger.judgeList('d/', more)).toEqual([
    'd/b is listed, but was deleted',
    'd/c is listed, but was never stored',
  ]);
});

test('what took several tries is not written again', () => {
  const ledger = new Ledger();
  ledger.stored('d/a', one, 2);
  ledger.stored('d/b', one, 1);
  expect(ledger.writable()).toEqual(['d/b']);
  expect(ledger.bytes).toBe(2);
});
