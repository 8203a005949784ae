import { expect, it } from 'vitest';
import { amountOf } from './quantity.ts';

it.each([
  ['2', 2],
  ['500m', 0.5],
  ['2Gi', 2 ** 31],
  ['1.5Ki', 1536],
  ['10k', 10_000],
  [5, 5],
  ['-1', undefined],
  ['1e3', undefined],
  ['<b>', undefined],
  [undefined, undefined],
])('%s is %s', (quantity, amount) => expect(amountOf(quantity)).toBe(amount));
