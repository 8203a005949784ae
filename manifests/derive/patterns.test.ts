import fc from 'fast-check';
import { RE2JS } from 're2js';
import { describe, expect, it } from 'vitest';
import { assistantSpec } from '../rules/assistant.ts';
import { capsuleName, capsuleSpec } from '../rules/capsule.ts';
import type { Check, Rule } from '../rules/rule.ts';
import { propertiesOf } from '../rules/rule.ts';
import { re2 } from './patterns.ts';

function checksOf(rule: Rule): readonly Check[] {
  switch (rule.kind) {
    case 'string':
      return rule.checks ?? [];
    case 'list':
      return checksOf(rule.items);
    case 'map':
      return [...checksOf(rule.keys), ...checksOf(rule.values)];
    case 'object':
      return Object.values(propertiesOf(rule)).flatMap(checksOf);
    default:
      return [];
  }
}

const patterns = [
  ...new Set([assistantSpec, capsuleSpec, capsuleName].flatMap(checksOf).map(({ pattern }) => pattern)),
];
const NASTY = [
  'https://',
  'a.org',
  '/',
  '.',
  '..',
  '%2E',
  '\u200b',
  '\ufeff',
  '\u3000',
  '🪙',
  '@abc',
  '-',
  '*',
  'xn--',
  '1.0.0',
];

describe('every pattern', () => {
  it('exists', () => expect(patterns.length).toBeGreaterThan(15));

  for (const pattern of patterns) {
    it(`means the same to RE2, and to ECMAScript with and without u: ${pattern.slice(0, 60)}`, () => {
      const google = RE2JS.compile(re2(pattern));
      const plain = new RegExp(pattern);
      const unicode = new RegExp(pattern, 'u');
      const piece = fc.oneof(fc.constantFrom(...NASTY), fc.string({ unit: 'binary', maxLength: 3 }));
      const text = fc.oneof(
        fc.array(piece, { maxLength: 6 }).map((pieces) => pieces.join('')),
        fc.stringMatching(/^[a-z0-9./@:-]{0,12}$/),
      );
      fc.assert(
        fc.property(text, (value) => {
          const verdict = plain.test(value);
          expect(unicode.test(value)).toBe(verdict);
          expect(google.matcher(value).find()).toBe(verdict);
        }),
        { numRuns: 60 },
      );
    });
  }
});
