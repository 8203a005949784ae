import { expect, it } from 'vitest';
import { type Definition, slotFault } from './stored-input.ts';

type Selectors = NonNullable<Definition['routes'][number]['query']>;
const choosing = (query: Selectors, slot = 'api_key'): Definition => ({
  host: 'api.bank.org',
  routes: [
    { method: 'GET', path: '/v1/rates' },
    { method: 'GET', path: '/v1/search', query },
  ],
  query: slot,
});
const by = (name: string, ...values: string[]) => ({ name, values });

it.each([
  [[by('_method', 'x')], 'has a route that is chosen by the parameter _method, which overrides methods'],
  [[by('method', 'put', 'DELETE')], 'has a route that is chosen by the parameter method'],
  [
    [by('a.b', 'x'), by('A_b', 'x')],
    'is chosen by the parameters a.b and A_b, which are one to some servers',
  ],
  [[by('api.KEY', 'x')], 'would be put into the parameter api_key, by which a route is chosen'],
  [[by('x.api_key', 'x')], 'would be put into the parameter api_key, by which a route is chosen'],
])('a definition with a route that no request can have is refused: %j', (query, fault) => {
  expect(slotFault(choosing(query))).toContain(fault);
});

it.each([
  [[by('method', 'photos.search', 'delete')]],
  [[by('status', 'booked'), by('filter.status', 'x')]],
  [[by('key', 'x')]],
])('a definition with routes that requests can have is accepted: %j', (query) => {
  expect(slotFault(choosing(query))).toBeUndefined();
});

it('a value is not put into a parameter that overrides methods, in whatever spelling', () => {
  for (const slot of ['_method', '._METHOD', 'X.HTTP.Method'])
    expect(slotFault(choosing([], slot)), slot).toContain('which overrides methods');
});
