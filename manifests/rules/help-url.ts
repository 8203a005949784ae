import type { Check, StringRule } from './rule.ts';
import { string } from './rule.ts';

const LABEL = '[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?';
/** A last label begins with a letter, so that an IPv4 address is not taken for a name. */
const LAST_LABEL = '[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?';
/** RFC 3986 `pchar`, and `/`. */
const PATH = "(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})";
const NO_SLASH = "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})";
const QUERY = "(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})";

/** The interface's own list. */
export const RESERVED_LAST_LABELS: readonly string[] = [
  'arpa',
  'example',
  'home',
  'internal',
  'invalid',
  'lan',
  'local',
  'localdomain',
  'localhost',
  'onion',
  'test',
];

const CHECKS: readonly Check[] = [
  {
    rule: 'help-url',
    expect: 'match',
    pattern: `^https://(?:${LABEL}\\.)+${LAST_LABEL}/${PATH}*${NO_SLASH}${PATH}*(?:\\?${QUERY}*)?$`,
    says: 'be an https URL of a lowercase host of two or more labels and a path of at least one segment, such as https://help.site.org/keys; a query may follow; no port, no fragment',
  },
  {
    rule: 'help-url-punycode',
    expect: 'avoid',
    pattern: '^https://(?:[^/]*\\.)?xn--',
    says: 'not have a host with a punycode label (xn--)',
  },
  {
    rule: 'help-url-host',
    expect: 'avoid',
    pattern: `^https://[^/]*\\.(?:${RESERVED_LAST_LABELS.join('|')})/`,
    says: `not have a host whose last label is ${RESERVED_LAST_LABELS.slice(0, -1).join(', ')} or ${RESERVED_LAST_LABELS.at(-1)}`,
  },
  {
    rule: 'help-url-dot-segment',
    expect: 'avoid',
    pattern: '^https://[^/]*/(?:[^?]*/)?\\.\\.?(?:[/?]|$)',
    says: 'not have a segment . or .. in its path',
  },
  {
    rule: 'help-url-encoded-dot',
    expect: 'avoid',
    pattern: '^https://[^/]*/[^?]*%2[Ee]',
    says: 'not have a percent-encoded dot (%2E) in its path',
  },
];

/** A page that people are sent to for help. */
export const helpUrl = (
  rule: Pick<StringRule, 'title' | 'description' | 'examples'>,
  max = 2048,
): StringRule => string({ min: 1, max, checks: CHECKS, ...rule });

/** A Help URL on one of a few hosts. */
export function helpUrlOn(
  hosts: readonly string[],
  rule: Pick<StringRule, 'title' | 'description' | 'examples'>,
  max: number,
): StringRule {
  const onHost: Check = {
    rule: 'link-host',
    expect: 'match',
    pattern: `^https://(?:${hosts.map((host) => host.replaceAll('.', '\\.')).join('|')})/`,
    says: `begin with ${hosts.map((host) => `https://${host}/`).join(' or ')}`,
  };
  return string({ min: 1, max, checks: [...CHECKS, onHost], ...rule });
}
