import fc from 'fast-check';
import { expect, it } from 'vitest';
import { lengthPrefixed } from './length-prefixed.ts';

it('no two lists of parts are encoded alike', () => {
  fc.assert(
    fc.property(fc.array(fc.string()), fc.array(fc.string()), (a, b) => {
      const same = a.length === b.length && a.every((part, i) => part === b[i]);
      expect(lengthPrefixed(a).equals(lengthPrefixed(b))).toBe(same);
    }),
  );
});
