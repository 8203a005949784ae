import { describe, expect, it } from 'vitest';
import { seeded } from '../../../testing/random.ts';
import { askAll } from '../testing/pipeline.ts';
import { decide } from '../testing/policy.ts';
import { NODE_ROUTERS, startNodeRouters } from '../testing/routers.ts';
import { fuzzedTarget } from '../testing/targets.ts';
import { compileRoutes, type Route } from './route.ts';
import { parseInputTarget, placeOfAmbiguity } from './target.ts';

const parsed = (target: string) => {
  const result = parseInputTarget(target);
  return typeof result === 'string' ? result : 'plain';
};

describe('a request target', () => {
  it.each([
    '/i/bank/v1/accounts',
    '/i/bank/v1/accounts/42/postings?from=2026-01-01&to=2026-02-01',
    '/i/bank/v1/caf%C3%A9',
    "/i/bank/v1/a!$&'()*+,=:@",
    '/i/bank/v1/%20x',
    '/i/bank/v1/+49.+',
    '/i/bank/v1/%C2%BD+(S)',
    "/i/bank/v1/Products(1)/Model.Of(x='a')",
    '/i/bank/v1/f(a(b))',
    '/i/bank/v1/x?flag',
    '/i/bank/v1/x?q=a+b%20c/d?e',
    '/i/bank/v1/x?q=a|b&w={c}^[d]',
    '/i/bank/v1/x?q=a%2fb%3ac',
    '/i/bank/v1/x?a=1&',
    '/i/bank/v1/x?x[]=1&x[a][b]=2',
    '/i/bank/v1/x?method=photos.search&delete=1',
    '/i/bank/v1/x?filter[method]=delete&$top=1&x.y=2&Start%3E=1',
  ])('%s is plain, and kept byte for byte', (raw) => {
    const target = parseInputTarget(raw);
    if (typeof target === 'string') throw new Error(target);
    expect(`/i/bank${target.path}${target.query === undefined ? '' : `?${target.query}`}`).toBe(raw);
  });

  it.each([
    ['a dot segment', '/i/bank/a/../b'],
    ['a dot segment, escaped', '/i/bank/a/%2e%2e/b'],
    ['a dot segment, half escaped', '/i/bank/a/.%2E/b'],
    ['a single dot', '/i/bank/a/./b'],
    ['many dots', '/i/bank/a/.../b'],
    ['an empty segment', '/i/bank/a//b'],
    ['a slash at the end', '/i/bank/a/'],
    ['only a slash', '/i/bank/'],
    ['a matrix parameter', '/i/bank/a/..;/b'],
    ['a semicolon, escaped', '/i/bank/a%3Bx/b'],
    ['an escaped slash', '/i/bank/a%2Fb'],
    ['an escaped slash in lower case', '/i/bank/a%2fb'],
    ['a doubly escaped slash', '/i/bank/a%252Fb'],
    ['a backslash', '/i/bank/a\\b'],
    ['an escaped backslash', '/i/bank/a%5Cb'],
    ['a NUL', '/i/bank/a%00b'],
    ['a line break', '/i/bank/a%0D%0Ab'],
    ['an overlong slash', '/i/bank/a%C0%AFb'],
    ['a surrogate in UTF-8', '/i/bank/a%ED%A0%80b'],
    ['a full-width slash', '/i/bank/a%EF%BC%8Fb'],
    ['full-width dots', '/i/bank/%EF%BC%8E%EF%BC%8E/b'],
    ['a C1 control character', '/i/bank/a%C2%85b'],
    ['an escape of a letter', '/i/bank/%70rojects'],
    ['an escaped question mark', '/i/bank/a%3Fb'],
    ['an escaped number sign', '/i/bank/a%23b'],
    ['dots and a space', '/i/bank/..%20/b'],
    ['a space and dots', '/i/bank/%20../b'],
    ['dots around a space', '/i/bank/.%20./b'],
    ['dots and a wide space', '/i/bank/..%E3%80%80/b'],
    ['dots and a space, as forms write it', '/i/bank/..+/b'],
    ['only spaces, as forms write them', '/i/bank/+/b'],
    ['dots around what cannot be seen', '/i/bank/.%E2%80%8B./b'],
    ['dots and a soft hyphen', '/i/bank/..%C2%AD/b'],
    ['a fraction slash, which Windows makes a slash of', '/i/bank/a%E2%81%84b'],
    ['a division slash', '/i/bank/a%E2%88%95b'],
    ['a set minus, which Windows makes a backslash of', '/i/bank/a%E2%88%96b'],
    ['an Arabic percent sign', '/i/bank/a%D9%AA2Fb'],
    ['a session, which ASP.NET takes out of the path', '/i/bank/(S(x))/b'],
    ['a session within a segment', '/i/bank/(S(x))a/b'],
    ['a session in escapes', '/i/bank/%28S%28x%29%29/b'],
    ['a full-width question mark', '/i/bank/a%EF%BC%9Fb'],
    ['an escape in lower case', '/i/bank/a%c3%a9'],
    ['a bracket that is not escaped', '/i/bank/a[b]'],
    ['a bad escape', '/i/bank/a%zz'],
    ['half an escape', '/i/bank/a%2'],
    ['a space', '/i/bank/a b'],
    ['a tab', '/i/bank/a\tb'],
    ['a fragment', '/i/bank/a#b'],
    ['a byte that is not ASCII', '/i/bank/caf\u00e9'],
    ['an only blank segment', '/i/bank/%20/b'],
    ['an empty query', '/i/bank/a?'],
    ['an empty parameter', '/i/bank/a?x=1&&y=2'],
    ['two signs at the end of a query', '/i/bank/a?x=1&&'],
    ['a sign and no parameter', '/i/bank/a?&'],
    ['a backslash in the query', '/i/bank/a?x=\\'],
    ['a NUL in a name in the query', '/i/bank/a?x%00=1'],
    ['a parameter without a name', '/i/bank/a?=1'],
    ['a semicolon in the query', '/i/bank/a?x=1;y=2'],
    ['an escape of a letter in the query', '/i/bank/a?x=%zz'],
    ['a method in the query', '/i/bank/a?_method=DELETE'],
    ['a method in the query, in capitals', '/i/bank/a?_METHOD=DELETE'],
    ['a method in the query, as Salesforce reads it', '/i/bank/a?_HttpMethod=PATCH'],
    ['a method in the query, as Google has it', '/i/bank/a?%24httpMethod=DELETE'],
    ['a method in the query, as the header is called', '/i/bank/a?X-HTTP-Method-Override=PUT'],
    ['a method in the query, as Facebook reads it', '/i/bank/a?x=1&method=delete'],
    ['a method in the query, in escapes', '/i/bank/a?method=+D%45LETE'],
    ['a bracket before a name, which qs and Rack take off', '/i/bank/a?[x]=1'],
    ['a bracket before a name, in escapes', '/i/bank/a?%5Bx%5D=1'],
    ['a bracket behind a name, which Rack takes off', '/i/bank/a?x]=1'],
    ['a bracket that PHP makes an underscore of', '/i/bank/a?x[y=1'],
    ['more behind a bracket, which PHP forgets', '/i/bank/a?x[y]z=1'],
    ['a second question mark, which URLSearchParams takes off', '/i/bank/a??x=1'],
    ['an escape of an escape in a name', '/i/bank/a?%2578=1'],
    ['a method in the query, in brackets', '/i/bank/a?[_method]=DELETE'],
    ['a method in the query, in nested brackets', '/i/bank/a?_method[]=DELETE'],
    ['a method in the query, behind a dot', '/i/bank/a?._method=DELETE'],
    ['a method in the query, behind a question mark', '/i/bank/a??_method=DELETE'],
    ['a method in the query, in a wide letter', '/i/bank/a?_%EF%BD%8Dethod=DELETE'],
    ['a long path', `/i/bank/${'a'.repeat(2_048)}`],
    ['a long query', `/i/bank/a?x=${'a'.repeat(8_192)}`],
  ])('with %s is ambiguous', (_, raw) => {
    expect(parsed(raw)).toBe('ambiguous');
  });

  it.each([
    '/',
    '/i',
    '/i/',
    '/i/bank',
    '/I/bank/a',
    '//i/bank/a',
    '/i/Bank/a',
    '/i/ba--nk/a',
    '/j/bank/a',
    '/i/Bank/i/bank/a',
    `/${'a'.repeat(9_000)}`,
    '*',
    '',
  ])('%j is not a target of an input', (raw) => {
    expect(parsed(raw)).toBe('not-found');
  });
});

it('has its parameters as they are written, and their names decoded including a byte order mark', () => {
  const target = parseInputTarget('/i/bank/a?%EF%BB%BFx=1&b+c=d%2Fe&f');
  expect(typeof target === 'string' ? target : target.parameters).toEqual([
    { name: '%EF%BB%BFx', value: '1', decoded: '\ufeffx' },
    { name: 'b+c', value: 'd%2Fe', decoded: 'b c' },
    { name: 'f', value: '', decoded: 'f' },
  ]);
});

it('may have its maximum length, and no more', () => {
  const [path, query] = [`/i/bank/${'a'.repeat(2_047)}`, `/i/bank/a?x=${'a'.repeat(8_180)}`];
  expect([path, query].map(parsed)).toEqual(['plain', 'plain']);
  expect([`${path}a`, `${query}a`].map(parsed)).toEqual(['ambiguous', 'ambiguous']);
  // A target that is not too long is refused with another message.
  for (const raw of [path, query])
    expect([placeOfAmbiguity(raw), placeOfAmbiguity(`${raw}a`)]).toEqual([
      ...['A parameter by which a route is chosen.', 'The target is too long.'],
    ]);
});

it.each([
  ['/i/bank/a/../b', 'Segment 2 of the path.'],
  ['/i/bank/a//b', 'Segment 2 of the path is empty.'],
  ['/i/bank/a/', 'Segment 2 of the path is empty.'],
  ['/i/bank/group%2Fproject', 'Segment 1 of the path.'],
  ['/i/bank/a?x=1;y=2', 'Parameter 1 of the query.'],
  ['/i/bank/a?x=1&&y=2', 'Parameter 2 of the query.'],
  ['/i/bank/a?x=1&_method=PUT', 'Parameter 2 of the query.'],
  ['/i/bank/a?', 'Parameter 1 of the query.'],
  ['/i/bank/a?status=1&Status=2', 'A parameter by which a route is chosen.'],
  [`/i/bank/${'a'.repeat(2_048)}`, 'The target is too long.'],
  [`/i/bank/a?${'x&'.repeat(513)}`, 'The query has too many parameters.'],
])('the refusal of %s says where it is ambiguous, and quotes nothing of it', (raw, expected) => {
  expect(placeOfAmbiguity(raw)).toBe(expected);
});

it('has so many parameters, each of which costs time, and no more', () => {
  expect(parsed(`/i/bank/a?${'x=1&'.repeat(512)}`)).toBe('plain');
  for (const query of ['x=1&'.repeat(513), 'x&'.repeat(4_000)])
    expect(parsed(`/i/bank/a?${query}`)).toBe('ambiguous');
});

const ROUTES: readonly Route[] = [
  { method: 'GET', path: '/v1/accounts' },
  {
    method: 'GET',
    path: '/v1/accounts/*/postings',
    query: [{ name: 'status', values: ['booked', 'a%2Fb'] }],
  },
  { method: 'POST', path: '/v1/transfers' },
];
const match = compileRoutes(ROUTES);
const matched = (method: string, path: string) => {
  const target = parseInputTarget(`/i/bank${path}`);
  return typeof target === 'string' ? target : match(method, target);
};

describe('a route', () => {
  it.each([
    ['GET', '/v1/accounts', 0],
    ['GET', '/v1/accounts?page=2', 0],
    ['GET', '/v1/accounts/42/postings?status=booked', 1],
    ['GET', '/v1/accounts/caf%C3%A9/postings?x=1&status=a%2Fb', 1],
    ['POST', '/v1/transfers', 2],
    ['HEAD', '/v1/accounts', 'denied'],
    ['get', '/v1/accounts', 'denied'],
    ['GET', '/v1/Accounts', 'denied'],
    ['GET', '/v1/accounts/42', 'denied'],
    ['GET', '/v1/accounts/42/43/postings?status=booked', 'denied'],
    ['GET', '/v1/accounts/42/postings', 'denied'],
    ['GET', '/v1/accounts/42/postings?status=open', 'denied'],
    ['GET', '/v1/accounts/42/postings?status=a/b', 'denied'],
    ['GET', '/v1/accounts/42/postings?status=booked&status=open', 'ambiguous'],
    ['GET', '/v1/accounts/42/postings?status=booked&status=booked', 'ambiguous'],
    ['GET', '/v1/accounts/42/postings?status=booked&Status=open', 'ambiguous'],
    ['GET', '/v1/accounts/42/postings?status=booked&status%5B%5D=open', 'ambiguous'],
    ['GET', '/v1/accounts/42/postings?status=booked&+status=open', 'ambiguous'],
    ['GET', '/v1/accounts/42/postings?%73tatus=booked', 'ambiguous'],
    ['GET', '/v1/accounts/42/postings?status=booked&', 1],
    ['GET', '/v1/accounts/42/postings?status=a%2fb', 'denied'],
    ['GET', '/v1/accounts/42/postings?status=booked&status[]=open', 'ambiguous'],
    ['GET', '/v1/accounts/42/postings?status=booked&status%5b%5d=open', 'ambiguous'],
    ['GET', '/v1/accounts/a%3Fstatus=x/postings?status=booked', 'ambiguous'],
    ['GET', '/v1/accounts/group%2Fproject/postings?status=booked', 'ambiguous'],
    ['POST', '/v1/transfers?Status=x', 'ambiguous'],
    ['GET', '/v1/accounts/42/postings?status=booked&statuses=x&x-status=y&a[b]=z', 1],
    ['GET', '/v1/accounts/42/postings?status=booked&$status=open', 'ambiguous'],
    ['GET', '/v1/accounts/42/postings?status=booked&.status=open', 'ambiguous'],
    ['GET', '/v1/accounts/42/postings?status=booked&status.x=open', 'ambiguous'],
    ['GET', '/v1/accounts/42/postings?status=booked&filter.status=open', 'ambiguous'],
    ['GET', '/v1/accounts/42/postings?status=booked&filter%5Bstatus%5D=open', 'ambiguous'],
    ['GET', '/v1/accounts/42/postings?status=booked&status%3E=open', 'ambiguous'],
    ['GET', '/v1/accounts/42/postings?status=booked&status%20=open', 'ambiguous'],
    ['GET', '/v1/accounts/42/postings?status=booked&%C5%BFtatus=open', 'ambiguous'],
    ['GET', '/v1/accounts/42/postings?status=booked&st%C3%A0tus=open', 'ambiguous'],
    ['GET', '/v1/accounts/42/postings?status=booked&%EF%BD%93tatus=open', 'ambiguous'],
    ['GET', '/v1/accounts/42/postings?status=booked&st%E2%80%8Batus=open', 'ambiguous'],
    ['GET', '/v1/accounts/42/postings?status=booked&%EF%BB%BFstatus=open', 'ambiguous'],
  ])('decides %s %s: %s', (method, path, expected) => {
    expect(matched(method, path)).toBe(expected);
  });

  it.each([
    ['?kind=a&by.kind=b', 1],
    ['?by.kind=b&kind=a', 1],
    ['?kind=a', 0],
    ['?kind=a&by.kind=x', 'ambiguous'],
    ['?kind=a&by[kind]=b', 'ambiguous'],
    ['?by_kind=c', 2],
    ['?by_kind=c&by.kind=b', 'ambiguous'],
    ['?by[kind]=c', 'ambiguous'],
  ])('is chosen by %s where one name ends with another: %s', (query, expected) => {
    const path = '/v1/search';
    const decideOn = compileRoutes([
      { method: 'GET', path, query: [{ name: 'kind', values: ['a'] }] },
      {
        method: 'GET',
        path,
        query: [
          { name: 'kind', values: ['a'] },
          { name: 'by.kind', values: ['b'] },
        ],
      },
      { method: 'GET', path, query: [{ name: 'by_kind', values: ['c'] }] },
    ]);
    const target = parseInputTarget(`/i/bank${path}${query}`);
    expect(typeof target === 'string' ? target : decideOn('GET', target)).toBe(expected);
  });

  it('is never chosen for a target that a router behind Node’s parser would read differently', async () => {
    const seed = Date.now() % 2 ** 31;
    const random = seeded(seed);
    const allowed = Array.from({ length: 20_000 }, () => fuzzedTarget(random)).flatMap(({ method, raw }) => {
      const decision = decide(method, raw);
      return typeof decision === 'object' ? [{ method, ...decision }] : [];
    });
    // A test in which nothing is allowed would prove nothing.
    expect(allowed.length).toBeGreaterThan(1_000);
    const server = await startNodeRouters();
    try {
      const answers = await askAll(
        server.port,
        allowed.map(({ method, sent }) => `${method} ${sent}`),
      );
      answers.forEach((answer, index) => {
        const { sent, route } = allowed[index]!;
        expect([seed, sent, answer]).toEqual([seed, sent, NODE_ROUTERS.map(() => route).join(' ')]);
      });
    } finally {
      await server.close();
    }
  });
});
