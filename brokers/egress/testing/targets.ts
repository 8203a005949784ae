import type { Random } from '../../../testing/random.ts';
import { POLICY_ROUTES, SELECTOR } from './policy.ts';

/** A request line of an attacker who wants one route to be mistaken for another. */
export interface FuzzedTarget {
  readonly method: string;
  readonly raw: string;
}

const METHODS = words('GET GET GET GET POST PUT DELETE HEAD get OPTIONS');
const WORDS = words('v1 accounts postings files content admin keys search export 42');

/** Every way known to us in which two servers have read one text differently. */
const TRICKS: Readonly<Record<string, readonly string[]>> = {
  'dot segments': words('. .. ... %2e %2E%2E .%2e %2e. ..; ..%00 %252e%252e'),
  slashes: words('/ // %2F %2f %252F %25252f \\ %5C %5c %255C /./ /../ \\..\\'),
  overlong: words('%C0%AF %C0%AE %E0%80%AF %F0%80%80%AF %C0%80 %C1%9C %ED%A0%80 %FF %80'),
  'look-alikes': words('%EF%BC%8F %EF%BC%8E %E2%81%84 %E2%88%95 %EF%BC%85 %E2%80%A4 %C2%AF \u2215'),
  controls: ['\0', '\n', '\t', ' ', ...words('%00 %0A %0D%0A %09 %20 %7F %C2%85 %1B %E2%80%A8')],
  parameters: words("; ;x=1 %3B ;v1 = , & %26 %3D + %2B $ ! ' ( ) *"),
  'ends of a path': words('? ..%20 %20.. .%20. %3F %3f # %23 ?? ?# #? %253F ?/ #/../'),
  escapes: words('% %2 %zz %u002f %%2F %25 %2525 %C3%A9 %c3%a9 %70 %41 %7E ~ |'),
  authorities: words('@ : //evil.org http://evil.org :443 [::1] @evil.org/ https:'),
  letters: [...words('a V \u00e9 e\u0301 \u0130 \u017f _ - 0'), '\ufeff'],
};
const KINDS = ['', ...words('public private PUBLIC publi%63 %70ublic public,private public%00 public#')];
const SELECTORS = [
  SELECTOR,
  ...words('Kind kind[] kind%5B%5D %6Bind ki%6Ed +kind kind%00 kind%20 k.ind [kind] %5Bkind%5D [kind kind]'),
  ...words(
    '?kind %3Fkind $kind .kind kind. kind.x x.kind x[kind] [][kind] kind[ kind[0 %256Bind %E2%84%AAind',
  ),
];

/** A target from the source: a known route, most often spoilt, sometimes anything at all. */
export function fuzzedTarget(random: Random): FuzzedTarget {
  const pick = <T>(from: readonly T[]): T => from[random(from.length)] as T;
  const trick = () => pick(TRICKS[pick(Object.keys(TRICKS))] ?? []);
  const times = <T>(count: number, make: () => T): T[] => Array.from({ length: count }, make);
  const piece = () => (random(2) === 0 ? pick(WORDS) : trick());
  const segment = () => times(random(4), piece).join('');

  /** A text for `*`: most often what a caller would send. */
  const filling = () => (random(6) === 0 ? segment() : times(1 + random(4), () => pick(FILLINGS)).join(''));
  const route = pick(POLICY_ROUTES);
  const known = () =>
    route.path
      .split('/')
      .map((part) => (part === '*' ? filling() : part))
      .join('/');
  const spoil: readonly ((path: string) => string)[] = [
    (path) => splice(path, random(path.length + 1), random(4), trick()),
    (path) => splice(path, random(path.length + 1), 0, piece()),
    // One character in another spelling of it.
    (path) => respell(path, random(path.length), random(6)),
    (path) => path.replaceAll('/', pick(TRICKS['slashes'] ?? [])),
    (path) => path.split('/').reverse().join('/'),
    (path) =>
      random(2) === 0 ? path.toUpperCase() : path.replace(/[a-z]/, (letter) => letter.toUpperCase()),
    (path) =>
      `${path}${pick(['/', '//', '/.', '/..', '.json', ';', '%20', '%00', '?', '#', '/%2e%2e/keys', '.'])}`,
    // Through another route's path and back.
    (path) => `${pick(POLICY_ROUTES).path}/${times(1 + random(4), () => '..').join('/')}${path}`,
    (path) => `${path}/..${pick(POLICY_ROUTES).path}`,
    (path) => `${path}${trick().repeat(random(4_000))}`,
  ];
  const path = () => {
    const shape = random(10);
    if (shape === 0) return `/${times(1 + random(5), segment).join('/')}`;
    const rounds = shape < 6 ? 0 : shape < 9 ? 1 : 1 + random(3);
    return times(rounds, () => pick(spoil)).reduce((text, change) => change(text), known());
  };
  const pair = () => {
    const kind = random(5);
    if (kind === 0) return `${SELECTOR}=${random(3) === 0 ? pick(KINDS) : 'public'}`;
    if (kind === 1) return `${pick(SELECTORS)}=${pick(KINDS)}`;
    if (kind >= 3) return `${times(1 + random(3), () => pick(FILLINGS)).join('')}=${filling()}`;
    return random(3) === 0 ? segment() : `${segment()}=${segment()}`;
  };
  const query = () =>
    `?${times(1 + random(3), pair).join(pick(['&', '&', '&', '&', ';', '&&', '%26', '?']))}`;
  const wanted = route.query !== undefined && random(4) > 0 ? `?${SELECTOR}=public` : '';
  const own = wanted !== '' && random(2) === 0 ? `${wanted}&${pair()}` : wanted;
  const prefix = random(40) === 0 ? pick(PREFIXES) : '/i/bank';
  const method = random(5) === 0 ? pick(METHODS) : route.method;
  return { method, raw: `${prefix}${path()}${own !== '' || random(3) > 0 ? own : query()}` };
}

/** Parts of segments and values that should be accepted. */
const FILLINGS = [
  ..."abcXYZ0189-_~!$'()*+,=:@",
  ...words('42 caf%C3%A9 %20 %40 %E2%82%AC %F0%9F%98%80 %CC%81 .a a. ..a a.. .a. %22 %3C %C2%A0 %E3%80%80'),
  ...words('%5B %5D %7C %60 %7B %E2%80%8B index.html accounts postings content'),
];
const PREFIXES = [
  '',
  '/i/bank/i/bank',
  '/i//bank',
  '//i/bank',
  '/i/bank/..',
  '/I/bank',
  '/i/%62ank',
  '/i/bank;x',
  'http://assistant-egress/i/bank',
  'http://api.bank.org/i/bank',
  '/i/bank@evil.org',
  '\\i\\bank',
  '/i/bank%2F',
];

const splice = (text: string, at: number, drop: number, insert: string): string =>
  text.slice(0, at) + insert + text.slice(at + drop);

function respell(path: string, at: number, way: number): string {
  const code = path.charCodeAt(at);
  if (Number.isNaN(code)) return path;
  const hex = code.toString(16).padStart(2, '0');
  const spellings = [
    `%${hex.toUpperCase()}`,
    `%${hex}`,
    `%25${hex.toUpperCase()}`,
    `%u00${hex}`,
    // The same in two bytes, which no decoder of UTF-8 may take.
    `%C${(code >> 6).toString(16).toUpperCase()}%${(0x80 | (code & 0x3f)).toString(16).toUpperCase()}`,
    // Full-width forms of ASCII.
    encodeURIComponent(String.fromCharCode(code + 0xfee0)),
  ];
  return splice(path, at, 1, spellings[way] ?? '');
}

function words(text: string): readonly string[] {
  return text.split(' ');
}
