import { choice, list, object, string } from './rule.ts';

/** Letters, digits and `. _ ~ -`: what RFC 3986 calls unreserved. */
const UNRESERVED = 'A-Za-z0-9._~-';
const NOT_DOT = 'A-Za-z0-9_~-';

/** 1 to 64 unreserved characters, but neither `.` nor `..`, without look-ahead. */
const SEGMENT = [
  '\\*',
  `[${NOT_DOT}][${UNRESERVED}]{0,63}`,
  `\\.[${NOT_DOT}][${UNRESERVED}]{0,62}`,
  `\\.\\.[${UNRESERVED}]{1,62}`,
].join('|');

/** The name of a query parameter, in a route and as the slot of a stored input. */
export const parameterName = (title: string, description: string) =>
  string({
    title,
    description,
    min: 1,
    max: 64,
    checks: [
      {
        rule: 'parameter-name',
        expect: 'match',
        pattern: `^[${UNRESERVED}]+$`,
        says: 'consist of letters, digits and . _ ~ -',
      },
    ],
    examples: ['api_key'],
  });

const selector = object({
  title: 'Route selector',
  description: 'A query parameter that the request must have, with one of these values.',
  required: {
    name: parameterName('Parameter', '1 to 64 letters, digits and . _ ~ -'),
    values: list({
      title: 'Values',
      description: '1 to 16 different values.',
      min: 1,
      max: 16,
      items: string({
        title: 'Value',
        description: '1 to 256 letters, digits, . _ ~ - and percent-escapes with uppercase hex.',
        min: 1,
        max: 256,
        checks: [
          {
            rule: 'parameter-value',
            expect: 'match',
            pattern: `^(?:[${UNRESERVED}]|%[0-9A-F]{2})+$`,
            says: 'consist of letters, digits, . _ ~ - and percent-escapes with uppercase hex, such as %2F',
          },
        ],
      }),
      unique: 'value',
    }),
  },
  optional: {},
});

export const route = object({
  title: 'Route',
  description: 'One kind of request that may carry the stored input.',
  required: {
    method: choice({
      title: 'Method',
      description: 'The HTTP method.',
      options: ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'],
    }),
    path: string({
      title: 'Path',
      description:
        'Begins with /; each segment is * or 1 to 64 letters, digits and . _ ~ -; no . or .. segment, no slash at the end.',
      min: 2,
      max: 512,
      checks: [
        {
          rule: 'route-path',
          expect: 'match',
          pattern: `^(?:/(?:${SEGMENT}))+$`,
          says: 'begin with /, have segments that are * or 1 to 64 letters, digits and . _ ~ - (but not . or ..), and not end with a slash',
        },
      ],
      examples: ['/v1/accounts/*/postings'],
    }),
  },
  optional: {
    query: list({
      title: 'Query',
      description: '1 to 8 selectors; the request must fit all of them.',
      min: 1,
      max: 8,
      items: selector,
    }),
  },
});
