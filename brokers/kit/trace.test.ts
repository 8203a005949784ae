import { expect, it } from 'vitest';
import { traceIdOf } from './trace.ts';

const trace = '4bf92f3577b34da6a3ce929d0e0e4736';

it('honours a well-formed traceparent', () => {
  expect(traceIdOf(`00-${trace}-00f067aa0ba902b7-01`)).toBe(trace);
});

it.each([
  undefined,
  '',
  trace,
  `00-${trace.toUpperCase()}-00f067aa0ba902b7-01`,
  `00-${'0'.repeat(32)}-00f067aa0ba902b7-01`,
  `00-${trace}-${'0'.repeat(16)}-01`,
  `01-${trace}-00f067aa0ba902b7-01`,
  `00-${trace}-00f067aa0ba902b7-01, 00-${trace}-00f067aa0ba902b7-01`,
])('makes a new id instead of %j', (value) => {
  expect(traceIdOf(value, () => 'a new one')).toBe('a new one');
});

it('never makes the same id twice', () => {
  const ids = Array.from({ length: 2_000 }, () => traceIdOf(undefined));
  expect(new Set(ids).size).toBe(2_000);
  for (const id of ids) expect(id).toMatch(/^[0-9a-f]{32}$/);
});
