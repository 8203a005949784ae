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
  const uuid = () => '0f7b1c9e-6a5d-4c3b-9e2f-8d7a6b5c4d3e' as const;
  expect(traceIdOf(value, uuid)).toBe('0f7b1c9e6a5d4c3b9e2f8d7a6b5c4d3e');
});
