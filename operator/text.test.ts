import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { clipped, oneLine } from './text.ts';

const anyText = fc.string({
  unit: fc.oneof(
    fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }),
    fc.integer({ min: 0, max: 0xffff }).map((code) => String.fromCharCode(code)),
  ),
  maxLength: 60,
});

describe('a text that is cut', () => {
  test('ends before a character that would be split', () => {
    expect(clipped('ab\ud83d\ude00cd', 4)).toBe('ab…');
    expect(clipped('ab\ud83d\ude00cd', 5)).toBe('ab\ud83d\ude00…');
    expect(clipped('ab\ud83d\ude00cd', 6)).toBe('ab\ud83d\ude00cd');
  });

  test('is well-formed and no longer than it may be', () => {
    fc.assert(
      fc.property(anyText, fc.integer({ min: 1, max: 40 }), (text, longest) => {
        for (const cut of [clipped(text, longest), oneLine(text, longest)]) {
          expect(cut.isWellFormed()).toBe(true);
          expect(cut.length).toBeLessThanOrEqual(longest);
        }
      }),
    );
  });
});

test('the text of somebody else becomes one line without control characters', () => {
  expect(oneLine(' a\n\u001b[2Jb\u202e  c\u0085d\u2028e\u007f\ud83d ', 80)).toBe('a [2Jb c d e');
});
