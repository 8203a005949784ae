import type { Check, StringRule } from './rule.ts';
import { string } from './rule.ts';

const SHAPE: Check = {
  rule: 'identifier',
  expect: 'match',
  pattern: '^[a-z][a-z0-9]*(?:-[a-z0-9]+)*$',
  says: 'begin with a lowercase letter and go on with lowercase letters and digits, in segments joined by single hyphens',
};

/** Names that belong to the platform: no Assistant and no Capsule has one. */
const RESERVED = ['postgres', 'assistant-egress', 'platform-assistant-egress'];

/** The keys of integrations and stored inputs, and `hmac`. */
export const identifier = (rule: Pick<StringRule, 'title' | 'description' | 'examples'>): StringRule =>
  string({ min: 1, max: 64, checks: [SHAPE], ...rule });

/** `platform.id`, and the name of a Capsule, also where an Assistant says which. */
export const shortIdentifier = (
  rule: Pick<StringRule, 'title' | 'description' | 'examples' | 'immutable'>,
): StringRule => string({ min: 1, max: 40, checks: [SHAPE], except: RESERVED, ...rule });
