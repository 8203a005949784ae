import type { Check, StringRule } from './rule.ts';
import { string } from './rule.ts';

/** White space that is not a control character; the controls are excluded everywhere. */
const SPACE = ' \\u00A0\\u1680\\u2000-\\u200A\\u2028\\u2029\\u202F\\u205F\\u3000';

const EDGES: Check = {
  rule: 'text-edges',
  expect: 'avoid',
  pattern: `^[${SPACE}]|[${SPACE}]$`,
  says: 'not begin or end with white space',
};

const INVISIBLE: Check = {
  rule: 'text-invisible',
  expect: 'avoid',
  pattern: '[\\u0000-\\u001F\\u007F-\\u009F\\u200B-\\u200F\\u202A-\\u202E\\u2060-\\u206F\\uFEFF]',
  says: 'not contain control, zero-width or directional-formatting characters',
};

/** Text for people to read: nothing invisible in it, no white space around it. */
export const text = (rule: Pick<StringRule, 'title' | 'description' | 'max' | 'examples'>): StringRule =>
  string({ min: 1, checks: [EDGES, INVISIBLE], ...rule });
