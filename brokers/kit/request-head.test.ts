import type { IncomingMessage } from 'node:http';
import { expect, it } from 'vitest';
import { announcesBody, headProblem } from './request-head.ts';

const problem = (rawHeaders: readonly string[], httpVersion = '1.1') =>
  headProblem({ httpVersion, rawHeaders } as IncomingMessage);

it.each([
  ['1.1', undefined],
  ['1.0', undefined],
  ['0.9', 'http version'],
  ['2.0', 'http version'],
])('a request of HTTP %s has the problem %s', (version, expected) => {
  expect(problem(['host', 'a'], version)).toBe(expected);
});

it('a header that parsers and logs could read differently may occur only once', () => {
  expect(problem(['Host', 'a', 'Content-Type', 'b', 'x', 'c', 'X', 'd'])).toBeUndefined();
  expect(problem(['host', 'a', 'x', 'y', 'HOST', 'a'])).toBe('two headers host');
  expect(problem(['content-type', 'a', 'Content-Type', 'b'])).toBe('two headers content-type');
  // A value that looks like a name is none.
  expect(problem(['host', 'a', 'x', 'host', 'y', 'host'])).toBeUndefined();
  expect(problem([])).toBeUndefined();
});

it('a body is announced by its length or as chunked', () => {
  const announces = (headers: IncomingMessage['headers']) => announcesBody({ headers } as IncomingMessage);
  expect([{ 'content-length': '1' }, { 'transfer-encoding': 'chunked' }].map(announces)).toEqual([
    true,
    true,
  ]);
  expect([{}, { 'content-length': '0' }].map(announces)).toEqual([false, false]);
});
