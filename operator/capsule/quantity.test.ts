import { expect, test } from 'vitest';
import { bytesOf } from './quantity.ts';

test.each([
  [undefined, undefined],
  [10, 10],
  ['10', 10],
  ['1k', 1_000],
  ['1Ki', 1_024],
  ['1.5Gi', 1_610_612_736],
  ['2G', 2_000_000_000],
  ['1e3', 1_000],
  ['1E', Number.MAX_SAFE_INTEGER],
  ['1E3', 1_000],
  ['500m', 1],
  ['0', 1],
  ['9999Ei', Number.MAX_SAFE_INTEGER],
  ['nonsense', undefined],
])('%j is %j bytes', (quantity, bytes) => {
  expect(bytesOf(quantity)).toBe(bytes);
});
