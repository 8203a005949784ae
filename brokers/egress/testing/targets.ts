import fc from 'fast-check';
import { compileRoutes, type Route } from '../core/route.ts';
import { parseInputTarget } from '../core/target.ts';

/** A policy, its neighbours that it does not allow, and what an attacker would like to have taken for one another. */
export const POLICY_ROUTES: readonly Route[] = [
  { method: 'GET', path: '/v1/accounts' },
  { method: 'GET', path: '/v1/accounts/*/postings' },
  { method: 'POST', path: '/v1/accounts/*/postings' },
  { method: 'GET', path: '/v1/files/*' },
  { method: 'DELETE', path: '/v1/files/*' },
  { method: 'GET', path: '/v1/files/*/content' },
  { method: 'PUT', path: '/admin/keys' },
];
/** Indices of the routes that are in the manifest; the others exist at the upstream alone. */
const IN_MANIFEST = [0, 1, 3];

const match = compileRoutes(IN_MANIFEST.map((index) => POLICY_ROUTES[index] as Route));

/** What the gateway decides: the route's index among all, and the bytes that it sends. */
export function decide(
  method: string,
  raw: string,
): 'refused' | { readonly route: number; readonly sent: string } {
  const target = parseInputTarget(raw);
  if (typeof target === 'string') return 'refused';
  const index = match(method, target);
  if (typeof index === 'string') return 'refused';
  const { path, query } = target;
  return { route: IN_MANIFEST[index] ?? -1, sent: query === undefined ? path : `${path}?${query}` };
}

const PIECES = [
  'v1',
  'accounts',
  'postings',
  'files',
  'content',
  'admin',
  'keys',
  '42',
  'a',
  '.',
  '..',
  '...',
  '%2e',
  '%2E%2E',
  '%2F',
  '%2f',
  '%5C',
  '\\',
  '%25',
  '%252F',
  ';',
  '%3B',
  ';x=1',
  '%00',
  '%0A',
  '%20',
  '+',
  '%C3%A9',
  '%C0%AF',
  '%EF%BC%8F',
  '%70',
  '%41',
  ':',
  '@',
  '*',
  '~',
  '!',
  "'",
  '(',
  '%',
  '%2',
  'Accounts',
  'V1',
  '#',
  ' ',
  '&',
  '=',
];

/** Targets near the policy's routes: whole routes, routes with a piece changed, and free mixtures of pieces. */
export function targets(): fc.Arbitrary<{ readonly method: string; readonly raw: string }> {
  const piece = fc.constantFrom(...PIECES);
  const segment = fc.array(piece, { minLength: 0, maxLength: 3 }).map((parts) => parts.join(''));
  const free = fc.array(segment, { minLength: 1, maxLength: 5 }).map((segments) => `/${segments.join('/')}`);
  const known = fc
    .tuple(fc.constantFrom(...POLICY_ROUTES), fc.array(segment, { minLength: 4, maxLength: 4 }))
    .map(([{ path }, fill]) =>
      path
        .split('/')
        .map((part, at) => (part === '*' ? (fill[at] ?? '') : part))
        .join('/'),
    );
  const mutated = fc.tuple(known, fc.nat(), fc.nat(3), piece).map(([path, at, drop, insert]) => {
    const place = at % (path.length + 1);
    return path.slice(0, place) + insert + path.slice(place + drop);
  });
  const query = fc.option(fc.array(fc.tuple(segment, segment), { maxLength: 3 }), { nil: undefined });
  return fc
    .tuple(
      fc.constantFrom('GET', 'GET', 'GET', 'POST', 'PUT', 'DELETE', 'HEAD'),
      fc.oneof(known, mutated, free),
      query,
    )
    .map(([method, path, pairs]) => ({
      method,
      raw: `/i/bank${path}${pairs === undefined ? '' : `?${pairs.map((pair) => pair.join('=')).join('&')}`}`,
    }));
}
