import type { Equivalent } from './entry.ts';

export const MANIFESTS: readonly Equivalent[] = [
  {
    file: 'manifests/parse/json.ts',
    code: 'if (this.text.charCodeAt(end) === 0x22) {',
    change: 'this.text.charCodeAt(end) === 0x22 → false',
    reason: 'a string without escapes is read to the same text, only more slowly',
  },
  {
    file: 'manifests/egress/parameter.ts',
    code: "if (!letters.includes('method')) return false;",
    change: "!letters.includes('method') → false",
    reason: 'no name without these letters is one of those that are looked for',
  },
  {
    file: 'manifests/egress/value.ts',
    code: '[/[^0-9a-zA-Z]/, 32],',
    change: '32 → nothing',
    reason: 'eight characters with one of these always have forty bits, and no number is less than undefined',
  },
  {
    file: 'manifests/egress/parameter.ts',
    code: 'if (/^[ -~]*$/.test(text)) return text.toLowerCase();',
    change: '/^[ -~]*$/.test(text) → false',
    reason: 'plain characters are their own in every normal form, only more slowly',
  },
];
