import { compileRoutes, type Route } from '../core/route.ts';
import { parseInputTarget } from '../core/target.ts';

/** The parameter by which two routes of one path differ. */
export const SELECTOR = 'kind';

/** A policy, its neighbours that it does not allow, and what an attacker would like to have taken for one another. */
export const POLICY_ROUTES: readonly Route[] = [
  { method: 'GET', path: '/v1/accounts' },
  { method: 'GET', path: '/v1/accounts/*/postings' },
  { method: 'POST', path: '/v1/accounts/*/postings' },
  { method: 'GET', path: '/v1/files/*' },
  { method: 'DELETE', path: '/v1/files/*' },
  { method: 'GET', path: '/v1/files/*/content' },
  { method: 'PUT', path: '/admin/keys' },
  { method: 'GET', path: '/v1/search', query: [{ name: SELECTOR, values: ['public'] }] },
  { method: 'GET', path: '/v1/search', query: [{ name: SELECTOR, values: ['private'] }] },
  { method: 'GET', path: '/v1/*/*/*/export' },
];
/** Indices of the routes that are in the manifest; the others exist at the upstream alone. */
const IN_MANIFEST = [0, 1, 3, 7];

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

/**
 * The route that an upstream would take, which found `path` to be the route's and read these values of the selector:
 * the worst one, should one server read more than one.
 */
export function routeOf(method: string, path: string | undefined, kinds: readonly string[]): number {
  const fitting = POLICY_ROUTES.flatMap(({ query, ...route }, index) => {
    if (route.method !== method || route.path !== path) return [];
    const values = query?.[0]?.values;
    return values === undefined || kinds.some((kind) => values.includes(kind)) ? [index] : [];
  });
  return fitting.at(-1) ?? -1;
}
