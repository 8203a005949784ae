import { randomBytes } from 'node:crypto';
import { Secret } from '@space/broker-kit';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createCursors } from './cursors.ts';

const key = () => new Secret(randomBytes(32));
const old = key();
const current = key();
const seal = createCursors([current, old], 'cursor');

test('a token can be opened only by its owner, and never if it was changed', () => {
  const owners = fc.array(fc.string({ maxLength: 8 }), { minLength: 1, maxLength: 3 });
  fc.assert(
    fc.property(owners, owners, fc.string({ maxLength: 80 }), fc.nat(), (owner, other, content, at) => {
      const token = seal.seal(owner, content);
      expect(seal.open(owner, token)).toBe(Buffer.from(content).toString());
      if (JSON.stringify(owner) !== JSON.stringify(other)) expect(seal.open(other, token)).toBeUndefined();
      const bytes = Buffer.from(token, 'base64url');
      const i = at % bytes.length;
      bytes[i] = (bytes[i] ?? 0) ^ (1 << (at % 8));
      expect(seal.open(owner, bytes.toString('base64url'))).toBeUndefined();
      expect(seal.open(owner, token.slice(0, -1 - (at % 20)))).toBeUndefined();
    }),
    { numRuns: 200 },
  );
});

test('an older key still opens a token, a removed one does not, and another purpose never does', () => {
  const before = createCursors([old], 'cursor').seal(['a'], 'x');
  expect(seal.open(['a'], before)).toBe('x');
  expect(createCursors([current], 'cursor').open(['a'], before)).toBeUndefined();
  expect(createCursors([old], 'other').open(['a'], before)).toBeUndefined();
});

test('two tokens with the same content differ', () => {
  expect(seal.seal(['a'], 'x')).not.toBe(seal.seal(['a'], 'x'));
});
