import { sampleManifest } from './samples.ts';

/** A sentence of the interface's part A, and a manifest that keeps it or breaks it. */
export interface Sentence {
  readonly says: string;
  readonly manifest: unknown;
  /** Where it is broken, when it is. */
  readonly broken?: string;
  readonly rule?: string;
}

type Change = readonly [pointer: string, value: unknown];
/** Instead of a value: the property is taken out. */
const ABSENT = Symbol('absent');

const INPUT = '/stored_inputs/bank-0';
const ROUTE = `${INPUT}/routes/0`;

/** The sample manifest with some values changed. */
function changed(changes: readonly Change[]): unknown {
  const manifest: unknown = structuredClone(
    sampleManifest({ inputs: 1, routes: 1, selectors: 1, genesis: 20 }),
  );
  for (const [pointer, value] of changes) {
    const path = pointer.split('/').slice(1);
    const last = path.pop() ?? '';
    let node = manifest as Record<string, unknown>;
    for (const key of path) {
      node[key] ??= {};
      node = node[key] as Record<string, unknown>;
    }
    if (value === ABSENT) delete node[last];
    else Object.defineProperty(node, last, { value, enumerable: true, configurable: true, writable: true });
  }
  return manifest;
}

const table: Sentence[] = [];
const keeps = (says: string, ...changes: Change[]) => table.push({ says, manifest: changed(changes) });
const breaks = (says: string, rule: string, broken: string, ...changes: Change[]) =>
  table.push({ says, manifest: changed(changes), broken, rule });

const chars = (count: number, char = 'a') => char.repeat(count);
const many = <T>(count: number, make: (index: number) => T): T[] =>
  Array.from({ length: count }, (_, i) => make(i));
const record = (count: number, value: unknown) => Object.fromEntries(many(count, (i) => [`key-${i}`, value]));

/** Both sides of a length, counted in code points where the text may hold any. */
function lengths(pointer: string, min: number, max: number, options: { char?: string; wide?: boolean } = {}) {
  const { char = 'a', wide = false } = options;
  const broken = pointer;
  if (min > 0) {
    keeps(`${pointer} may have ${min} characters`, [pointer, chars(min, char)]);
    breaks(`${pointer} has at least ${min}`, 'length', broken, [pointer, chars(min - 1, char)]);
  }
  keeps(`${pointer} may have ${max} characters`, [pointer, chars(max, char)]);
  breaks(`${pointer} has at most ${max}`, 'length', broken, [pointer, chars(max + 1, char)]);
  if (!wide) return;
  keeps(`${pointer} may have ${max} characters beyond the basic plane`, [pointer, chars(max, '🪙')]);
  breaks(`${pointer} has at most ${max} of those too`, 'length', broken, [pointer, chars(max + 1, '🪙')]);
}

function each(says: string, pointer: string, values: readonly unknown[], ...others: Change[]) {
  for (const value of values) keeps(`${says}: ${JSON.stringify(value)}`, ...others, [pointer, value]);
}
function none(says: string, rule: string, pointer: string, values: readonly unknown[], ...others: Change[]) {
  for (const value of values) {
    breaks(`${says}: not ${JSON.stringify(value)}`, rule, pointer, ...others, [pointer, value]);
  }
}

// Manifest
keeps('the sample is valid');
for (const name of ['platform', 'network']) {
  breaks(`${name} is required`, 'required', `/${name}`, [`/${name}`, ABSENT]);
  none(`${name} is an object`, 'type', `/${name}`, [null, [], 'x', 1]);
}
for (const name of ['integrations', 'stored_inputs']) {
  keeps(`${name} is optional`, [`/${name}`, ABSENT]);
  keeps(`${name} may be empty`, [`/${name}`, {}]);
  none(`${name} is an object`, 'type', `/${name}`, [null, [], 'x']);
}
breaks('no other root property is allowed', 'unknown-property', '/other', ['/other', 1]);
breaks('not even constructor', 'unknown-property', '/constructor', ['/constructor', {}]);
keeps('at most 16 integrations', ['/integrations', record(16, { scopes: ['a'] })]);
breaks('not 17', 'count', '/integrations', ['/integrations', record(17, { scopes: ['a'] })]);
const input = sampleManifest({ inputs: 1, routes: 1 }).stored_inputs?.['bank-0'];
keeps('at most 8 stored inputs', ['/stored_inputs', record(8, input)]);
breaks('not 9', 'count', '/stored_inputs', ['/stored_inputs', record(9, input)]);

// Identifier
const identifiers = ['a', 'abc', 'a1', 'a-b', 'a-1-b2', 'constructor', 'tostring', 'postgres'];
const notIdentifiers = ['A', '1a', '-a', 'a-', 'a--b', 'a_b', 'a.b', 'а', 'a b', 'ä', 'a\u200bb', 'a\n'];
for (const key of identifiers) {
  keeps(`an Identifier as a key: ${key}`, [`/integrations/${key}`, { scopes: ['a'] }]);
  keeps(`and as a key of stored inputs: ${key}`, [`/stored_inputs/${key}`, input]);
}
for (const key of notIdentifiers) {
  breaks(`no Identifier: ${JSON.stringify(key)}`, 'identifier', `/integrations/${key}`, [
    `/integrations/${key}`,
    { scopes: ['a'] },
  ]);
}
keeps('a key of 64 characters', [`/integrations/${chars(64)}`, { scopes: ['a'] }]);
breaks('not of 65', 'length', `/integrations/${chars(65)}`, [
  `/integrations/${chars(65)}`,
  { scopes: ['a'] },
]);
breaks('a key has at least one character', 'length', '/stored_inputs/', ['/stored_inputs/', input]);
each('hmac is an Identifier', `${INPUT}/hmac`, ['sha256-body', 'unheard-of']);
none('hmac is an Identifier', 'identifier', `${INPUT}/hmac`, ['SHA256', 'a--b', '-']);
lengths(`${INPUT}/hmac`, 1, 64);

// Platform block
for (const name of [
  'spec',
  'id',
  'version',
  'name',
  'summary',
  'description',
  'creators',
  'github',
  'genesis',
]) {
  breaks(`platform.${name} is required`, 'required', `/platform/${name}`, [`/platform/${name}`, ABSENT]);
}
keeps('links is optional', ['/platform/links', ABSENT]);
breaks('no extra property', 'unknown-property', '/platform/Name', ['/platform/Name', 'x']);
keeps('spec is exactly 1', ['/platform/spec', 1]);
none('spec is exactly 1', 'number', '/platform/spec', [0, 2, -1, 1.5, 1e21]);
none('spec is a number', 'type', '/platform/spec', ['1', true, null, [1]]);
each('id has the shape of an Identifier', '/platform/id', ['a', 'ledger', 'post-gres', 'postgres2']);
none('id has the shape of an Identifier', 'identifier', '/platform/id', notIdentifiers);
lengths('/platform/id', 1, 40);
none('id is not reserved', 'reserved', '/platform/id', [
  'postgres',
  'assistant-egress',
  'platform-assistant-egress',
]);
each('version is major.minor.patch', '/platform/version', [
  '0.0.0',
  '1.2.3',
  '10.20.30',
  '1.0.99999999999999999999',
]);
none('version has no leading zeros and nothing else', 'version', '/platform/version', [
  '01.0.0',
  '1.00.0',
  '1.0.0-rc',
  '1.0.-1',
  'v1.0.0',
  '1.0.0.0',
  '1.0.0 ',
  '１.0.0',
]);
none('version is not shorter', 'version', '/platform/version', ['1.0', '1']);
none('nor empty', 'length', '/platform/version', ['']);
lengths('/platform/name', 1, 80, { wide: true });
lengths('/platform/summary', 1, 80, { wide: true });
lengths('/platform/description', 1, 400, { wide: true });
lengths('/platform/genesis', 1, 65_536, { wide: true });
each('genesis may have any characters', '/platform/genesis', [' a\n', '\u0000', '\u202e', '\ufeff']);
const handles = (count: number) => many(count, (i) => `@handle${i}`);
keeps('1 to 16 creators', ['/platform/creators', handles(1)]);
keeps('16 creators', ['/platform/creators', handles(16)]);
none('1 to 16 creators', 'count', '/platform/creators', [[], handles(17)]);
breaks('creators are unique', 'unique', '/platform/creators/1', ['/platform/creators', ['@abc', '@abc']]);
for (const handle of ['@abc', '@a-c', '@a--c', '@0a9', `@${chars(32)}`]) {
  keeps(`a handle: ${handle}`, ['/platform/creators', [handle]]);
}
for (const handle of ['abcd', '@-bc', '@ab-', '@Abc', '@a_c', '@abç', '@@bc']) {
  breaks(`no handle: ${handle}`, 'handle', '/platform/creators/0', ['/platform/creators', [handle]]);
}
breaks('a handle has 3 characters', 'handle', '/platform/creators/0', ['/platform/creators', ['@ab']]);
breaks('and at most 32', 'length', '/platform/creators/0', ['/platform/creators', [`@${chars(33)}`]]);
each('github is owner/repo', '/platform/github', [
  'https://github.com/a/b',
  'https://github.com/A-1/a_b.c-d',
  `https://github.com/${chars(39)}/${chars(100)}`,
  'https://github.com/a--b/c..d',
]);
none('github is owner/repo', 'repository', '/platform/github', [
  'http://github.com/abc/d',
  'https://github.com/abcd',
  'https://github.com/a/b/',
  'https://github.com/a/b/c',
  'https://github.com/-a/bc',
  'https://github.com/a-/bc',
  'https://github.com/a_b/c',
  'https://github.com/a/.bc',
  'https://github.com/a/bc.',
  'https://github.com/a/b?c',
  'https://github.com/a/b#c',
  'https://gitlab.com/a/bcd',
  'https://www.github.com/a/b',
  'https://GitHub.com/a/bc',
  'https://u@github.com/a/b',
  `https://github.com/${chars(40)}/b`,
  `https://github.com/a/${chars(101)}`,
]);

// Text rule
const texts = [
  '/platform/name',
  '/platform/summary',
  '/platform/description',
  `${INPUT}/label`,
  `${INPUT}/description`,
];
const spaces = [
  ' ',
  '\u00a0',
  '\u1680',
  '\u2000',
  '\u2009',
  '\u2028',
  '\u2029',
  '\u202f',
  '\u205f',
  '\u3000',
];
const invisible = [
  '\u0000',
  '\t',
  '\n',
  '\u001f',
  '\u007f',
  '\u0085',
  '\u009f',
  '\u200b',
  '\u200f',
  '\u202a',
  '\u202e',
  '\u2060',
  '\u206f',
  '\ufeff',
];
for (const pointer of texts) {
  each('text may have spaces and other scripts inside', pointer, [
    'a b',
    '日本 語',
    'a\u2028b',
    'a\u00a0b',
    '\u200aa'.slice(1),
  ]);
  each('characters beside the forbidden ranges are allowed', pointer, [
    'a\u0020b',
    'a~b',
    'a\u00a1b',
    'a\u2010b',
    'a\u2070b',
  ]);
  none('no white space at the edges', 'text-edges', pointer, [
    ...spaces.slice(0, 3).flatMap((s) => [`${s}a`, `a${s}`]),
    ' ',
  ]);
  none(
    'no control, zero-width or directional character',
    'text-invisible',
    pointer,
    invisible.slice(0, 6).map((c) => `a${c}b`),
  );
}
none(
  'none of the white space',
  'text-edges',
  '/platform/name',
  spaces.flatMap((s) => [`${s}a`, `a${s}`]),
);
none(
  'none of the invisible',
  'text-invisible',
  '/platform/name',
  invisible.flatMap((c) => [`${c}a`, `a${c}b`, `a${c}`]),
);

// Network block
const HOSTS = '/network/allowed_hosts';
breaks('allowed_hosts is required', 'required', HOSTS, [HOSTS, ABSENT]);
breaks('the network block is closed', 'unknown-property', '/network/ports', ['/network/ports', []]);
keeps('an empty list is permitted', [HOSTS, []]);
keeps('at most 32 hosts', [HOSTS, many(32, (i) => `h${i}.org`)]);
breaks('not 33', 'count', HOSTS, [HOSTS, many(33, (i) => `h${i}.org`)]);
breaks('hosts are unique', 'unique', `${HOSTS}/1`, [HOSTS, ['a.org', 'a.org']]);
keeps('hosts that differ are unique', [HOSTS, ['a.org', 'A.org', 'a.org.']]);
keeps('a host is any string', [HOSTS, ['*', ' ', 'ä', '[::1]', 'a/b', '🪙']]);
keeps('of at most 253 characters', [HOSTS, [chars(253)]]);
breaks('not 254', 'length', `${HOSTS}/0`, [HOSTS, [chars(254)]]);
breaks('not none', 'length', `${HOSTS}/0`, [HOSTS, ['']]);
breaks('a host is a string', 'type', `${HOSTS}/0`, [HOSTS, [1]]);
breaks('and not null', 'type', `${HOSTS}/0`, [HOSTS, [null]]);

// Integration
const SCOPES = '/integrations/calendar/scopes';
breaks('scopes is required', 'required', SCOPES, [SCOPES, ABSENT]);
breaks('an integration is closed', 'unknown-property', '/integrations/calendar/x', [
  '/integrations/calendar/x',
  1,
]);
breaks('an integration is an object', 'type', '/integrations/calendar', ['/integrations/calendar', null]);
none('1 to 32 scopes', 'count', SCOPES, [[], many(33, (i) => `s${i}`)]);
keeps('32 scopes', [SCOPES, many(32, (i) => `s${i}`)]);
breaks('scopes are unique', 'unique', `${SCOPES}/1`, [SCOPES, ['a', 'a']]);
for (const scope of ['a', '0', 'a.b:c/d_e-f', chars(128), 'https://a.org/x'])
  keeps(`a scope: ${scope}`, [SCOPES, [scope]]);
for (const scope of ['A', '.a', ':a', '/a', '_a', '-a', 'a b', 'aB', 'a*', 'ä']) {
  breaks(`no scope: ${scope}`, 'scope', `${SCOPES}/0`, [SCOPES, [scope]]);
}
for (const scope of ['', chars(129)])
  breaks('1 to 128 characters', 'length', `${SCOPES}/0`, [SCOPES, [scope]]);

// Stored input
for (const name of ['kind', 'label', 'description', 'help_url', 'host', 'routes']) {
  breaks(`${name} is required`, 'required', `${INPUT}/${name}`, [`${INPUT}/${name}`, ABSENT]);
}
breaks('a stored input is closed', 'unknown-property', `${INPUT}/value`, [`${INPUT}/value`, 'x']);
breaks('a stored input is an object', 'type', INPUT, [INPUT, null]);
none('kind is exactly password', 'choice', `${INPUT}/kind`, ['Password', 'text', '', null, 1]);
lengths(`${INPUT}/label`, 1, 80, { wide: true });
lengths(`${INPUT}/description`, 1, 400, { wide: true });
lengths(`${INPUT}/host`, 1, 253, { wide: true });
const routes = (count: number) => many(count, (i) => ({ method: 'GET', path: `/r${i}` }));
keeps('32 routes', [`${INPUT}/routes`, routes(32)]);
none('1 to 32 routes', 'count', `${INPUT}/routes`, [[], routes(33)]);
keeps('routes need not be unique', [`${INPUT}/routes`, [...routes(1), ...routes(1)]]);
each('header names', `${INPUT}/header`, ['X-Api-Key', "!#$%&'*+.^_`|~-", chars(64), '0']);
none('header names', 'header-name', `${INPUT}/header`, ['X Key', 'X:Key', 'ä', 'a(b)', 'a/b', 'a\r']);
lengths(`${INPUT}/header`, 1, 64);
const asQuery: Change[] = [
  [`${INPUT}/header`, ABSENT],
  [`${INPUT}/scheme`, ABSENT],
];
each('query names', `${INPUT}/query`, ['key', 'a._~-Z9', chars(64)], ...asQuery);
none('query names', 'parameter-name', `${INPUT}/query`, ['a b', 'a[b]', 'a&b', 'ä'], ...asQuery);
none('of 1 to 64 characters', 'length', `${INPUT}/query`, ['', chars(65)], ...asQuery);
breaks('one of header and query', 'exactly-one', INPUT, ...asQuery);
breaks('not both', 'exactly-one', INPUT, [`${INPUT}/query`, 'key'], [`${INPUT}/scheme`, ABSENT]);
breaks(
  'scheme only with header',
  'only-with',
  `${INPUT}/scheme`,
  [`${INPUT}/header`, ABSENT],
  [`${INPUT}/query`, 'key'],
);
keeps('scheme is optional', [`${INPUT}/scheme`, ABSENT]);
each('schemes', `${INPUT}/scheme`, ['Bearer', 'a', 'A-1', 'a-', chars(32)]);
none('schemes', 'scheme', `${INPUT}/scheme`, ['1a', '-a', 'a b', 'a_b', 'ä']);
lengths(`${INPUT}/scheme`, 1, 32);
none('an optional property is absent, not null', 'type', `${INPUT}/scheme`, [null]);

// Route
for (const name of ['method', 'path']) {
  breaks(`${name} is required`, 'required', `${ROUTE}/${name}`, [`${ROUTE}/${name}`, ABSENT]);
}
breaks('a route is closed', 'unknown-property', `${ROUTE}/host`, [`${ROUTE}/host`, 'x']);
each('methods', `${ROUTE}/method`, ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE']);
none('methods', 'choice', `${ROUTE}/method`, ['get', 'OPTIONS', 'CONNECT', 'TRACE', '', '*']);
const longPath = `${`/${chars(62)}`.repeat(8)}/${chars(7)}`;
each('paths', `${ROUTE}/path`, [
  '/a',
  '/*',
  '/*/a/*',
  '/a.b_c~d-e',
  '/...',
  '/.a',
  '/..a',
  '/a.',
  '/a..',
  `/${chars(64)}`,
  longPath,
]);
none('paths', 'route-path', `${ROUTE}/path`, [
  'aa',
  '//',
  '/a/',
  '/a//b',
  '/.',
  '/..',
  '/a/./b',
  '/a/../b',
  '/a*',
  '/**',
  '/a b',
  '/a%2Fb',
  '/a?b',
  '/ä',
  `/${chars(65)}`,
]);
none('paths of 2 to 512 characters', 'length', `${ROUTE}/path`, ['/', '', `${longPath}a`]);

// Route selector
const SELECTOR = `${ROUTE}/query/0`;
keeps('query is optional', [`${ROUTE}/query`, ABSENT]);
const selectors = (count: number) => many(count, (i) => ({ name: `n${i}`, values: ['a'] }));
keeps('8 selectors', [`${ROUTE}/query`, selectors(8)]);
none('1 to 8 selectors', 'count', `${ROUTE}/query`, [[], selectors(9)]);
for (const name of ['name', 'values']) {
  breaks(`${name} is required`, 'required', `${SELECTOR}/${name}`, [`${SELECTOR}/${name}`, ABSENT]);
}
breaks('a selector is closed', 'unknown-property', `${SELECTOR}/x`, [`${SELECTOR}/x`, 1]);
lengths(`${SELECTOR}/name`, 1, 64);
none('selector names', 'parameter-name', `${SELECTOR}/name`, ['a b', '%41', 'ä']);
none('1 to 16 values', 'count', `${SELECTOR}/values`, [[], many(17, String)]);
keeps('16 values', [`${SELECTOR}/values`, many(16, String)]);
breaks('values are unique', 'unique', `${SELECTOR}/values/1`, [`${SELECTOR}/values`, ['a', 'a']]);
for (const value of ['a', '._~-', '%2F', 'a%C3%A4', '%00', chars(256)])
  keeps(`a value: ${value}`, [`${SELECTOR}/values`, [value]]);
for (const value of ['a b', '%2f', '%', '%2', '%GG', '*', 'ä', 'a+b']) {
  breaks(`no value: ${value}`, 'parameter-value', `${SELECTOR}/values/0`, [`${SELECTOR}/values`, [value]]);
}
for (const value of ['', chars(257)]) {
  breaks('1 to 256 characters', 'length', `${SELECTOR}/values/0`, [`${SELECTOR}/values`, [value]]);
}

// Help URL
const HELP = `${INPUT}/help_url`;
const url = (length: number, host = 'a.org') => `https://${host}/${chars(length - host.length - 9)}`;
each('Help URLs', HELP, [
  'https://a.org/x',
  'https://a.b.c.org/x/y',
  'https://a-b.org/x',
  'https://0a.org/x/',
  'https://a.org/x?',
  'https://a.org/x?q=1&r=%2E/?',
  "https://a.org/:@!$&'()*+,;=~",
  'https://a.org/%C3%A4',
  'https://a.org/...',
  'https://a.org/.well-known',
  'https://a.org/a..b',
  'https://test.org/x',
  'https://local.host.org/x',
  url(2048),
]);
none('Help URLs', 'help-url', HELP, [
  'http://a.org/x',
  'HTTPS://a.org/x',
  'https://a/x',
  'https://A.org/x',
  'https://a.org',
  'https://a.org/',
  'https://a.org//',
  'https://a.org?x',
  'https://a.org/x#y',
  'https://a.org:443/x',
  'https://u@a.org/x',
  'https://-a.org/x',
  'https://a-.org/x',
  'https://a..org/x',
  'https://a.org./x',
  'https://ä.org/x',
  'https://127.0.0.1/x',
  'https://[::1]/x',
  'https://a.org/x y',
  'https://a.org/\\x',
  'https://a.org/%zz',
  'https://a.org/ä',
  'javascript:alert(1)',
  `https://${chars(64)}.org/x`,
]);
none('of 1 to 2048 characters', 'length', HELP, ['', url(2049)]);
none('no punycode', 'help-url-punycode', HELP, [
  'https://xn--a.org/x',
  'https://a.xn--b.org/x',
  'https://a.xn--p1ai/x',
]);
for (const label of 'arpa example home internal invalid lan local localdomain localhost onion test'.split(
  ' ',
)) {
  breaks(`not the last label ${label}`, 'help-url-host', HELP, [HELP, `https://a.${label}/x`]);
}
none('no dot segments', 'help-url-dot-segment', HELP, [
  'https://a.org/./x',
  'https://a.org/../x',
  'https://a.org/x/..',
  'https://a.org/x/.?q',
  'https://a.org/x/./',
]);
none('no percent-encoded dot', 'help-url-encoded-dot', HELP, [
  'https://a.org/%2E',
  'https://a.org/%2e%2e/x',
  'https://a.org/x/%2Ey',
]);

// Links
const LINKS = '/platform/links';
none('at least one link', 'not-empty', LINKS, [{}]);
breaks('no other link', 'unknown-property', `${LINKS}/blog`, [`${LINKS}/blog`, 'https://a.org/x']);
const hosts = {
  repo: ['github.com'],
  microblog: ['x.com', 'twitter.com', 'bsky.app'],
  video: ['youtube.com', 'www.youtube.com'],
  professional: ['linkedin.com', 'www.linkedin.com'],
  photo: ['instagram.com', 'www.instagram.com'],
};
keeps('a link may stand alone', [LINKS, { site: 'https://any.org/x' }]);
for (const [name, allowed] of Object.entries(hosts)) {
  for (const host of allowed) keeps(`${name} on ${host}`, [`${LINKS}/${name}`, `https://${host}/x`]);
  for (const host of [
    'any.org',
    'evil-github.com',
    `www.${allowed[0]?.replace('youtube', 'you-tube').replace('in', 'im')}`,
    `${allowed[0]}.org`,
  ]) {
    if (!allowed.includes(host))
      breaks(`${name} not on ${host}`, 'link-host', `${LINKS}/${name}`, [
        `${LINKS}/${name}`,
        `https://${host}/x`,
      ]);
  }
}
for (const [name, [host = '']] of Object.entries({ site: ['a.org'], ...hosts })) {
  const link = `${LINKS}/${name}`;
  none(`${name} is a Help URL`, 'help-url', link, [`http://${host}/x`, `https://${host}/`, 'x']);
  keeps(`${name} of 256 characters`, [link, url(256, host)]);
  none(`${name} not of 257`, 'length', link, [url(257, host), '']);
}

/** Every sentence of part A and of its Limits, kept and broken. */
export const SENTENCES: readonly Sentence[] = table;
