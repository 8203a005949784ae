import { describe, expect, it } from 'vitest';
import type { Manifest } from '../rules/manifest.ts';
import { sampleManifest } from '../testing/samples.ts';
import { covers, newPowers } from './powers.ts';

type Input = NonNullable<Manifest['stored_inputs']>[string];
const old = sampleManifest({ inputs: 1, routes: 1 });
const bank = old.stored_inputs?.['bank-0'] as Input;
const withBank = (change: Partial<Input>): Manifest => ({
  ...old,
  stored_inputs: { 'bank-0': { ...bank, ...change } },
});
const says = (next: Manifest) => newPowers(old, next).map((power) => `${power.pointer}: ${power.says}`);

describe('what a new version may do', () => {
  it('is nothing new if the manifest is the same, or asks for less', () => {
    expect(says(old)).toEqual([]);
    expect(says({ platform: old.platform, network: { allowed_hosts: [] } })).toEqual([]);
    expect(says({ ...old, platform: { ...old.platform, version: '2.0.0', genesis: 'other' } })).toEqual([]);
  });

  it('names new hosts, integrations and scopes', () => {
    const integrations = {
      calendar: { scopes: ['calendar:read', 'calendar:delete'] },
      constructor: { scopes: ['a'] },
    };
    expect(says({ ...old, network: { allowed_hosts: ['x.org', 'api.bank.org'] }, integrations })).toEqual([
      '/network/allowed_hosts/0: may reach the host x.org',
      '/integrations/calendar/scopes/1: may use calendar:delete of the integration calendar',
      '/integrations/constructor/scopes/0: may use a of the integration constructor',
    ]);
  });

  it('names new stored inputs with all that they reach', () => {
    expect(says({ ...old, stored_inputs: { ...old.stored_inputs, mail: bank } })).toEqual([
      '/stored_inputs/mail: may use a new stored input mail, sent to api.bank.org on GET /v1/accounts/*/postings-0',
    ]);
  });

  it('names a secret that goes elsewhere or in another way', () => {
    const { header: _, scheme: __, ...rest } = bank;
    expect(says(withBank({ host: 'evil.org' }))).toEqual([
      '/stored_inputs/bank-0/host: sends bank-0 to evil.org instead of api.bank.org',
    ]);
    expect(says({ ...old, stored_inputs: { 'bank-0': { ...rest, query: 'key' } } })).toEqual([
      '/stored_inputs/bank-0: puts bank-0 into the query parameter key instead of the header Authorization (Bearer)',
    ]);
    expect(says({ ...old, stored_inputs: { 'bank-0': { ...rest, header: 'Authorization' } } })).toEqual([
      '/stored_inputs/bank-0: puts bank-0 into the header Authorization instead of the header Authorization (Bearer)',
    ]);
    expect(says(withBank({ hmac: 'sha256-body' }))).toEqual([
      '/stored_inputs/bank-0: uses bank-0 in another way: it signs as sha256-body; before, it is sent itself',
    ]);
  });

  it('names routes that no old route covers', () => {
    const [route] = bank.routes;
    const routes = [
      ...(route ? [route] : []),
      { method: 'GET' as const, path: '/v1/accounts/7/postings-0' },
      { method: 'POST' as const, path: '/v1/pay' },
    ];
    expect(says(withBank({ routes }))).toEqual([
      '/stored_inputs/bank-0/routes/2: may send bank-0 on POST /v1/pay',
    ]);
  });

  it('reports another Assistant as such', () => {
    expect(says({ ...old, platform: { ...old.platform, id: 'other' } })).toEqual([
      '/platform/id: is another Assistant: other, not ledger',
    ]);
  });
});

describe('a route covers another', () => {
  const get = (path: string, query?: Input['routes'][number]['query']) => ({
    method: 'GET' as const,
    path,
    ...(query ? { query } : {}),
  });
  const only = (...values: string[]) => [{ name: 'q', values }];
  const cases: readonly (readonly [string, ReturnType<typeof get>, ReturnType<typeof get>, boolean])[] = [
    ['the same', get('/a/b'), get('/a/b'), true],
    ['a star any one segment', get('/a/*'), get('/a/b'), true],
    ['a star a star', get('/a/*'), get('/a/*'), true],
    ['a segment no star', get('/a/b'), get('/a/*'), false],
    ['a star no two segments', get('/*'), get('/a/b'), false],
    ['no selector any selector', get('/a'), get('/a', only('1')), true],
    ['a selector no lack of it', get('/a', only('1')), get('/a'), false],
    ['more values fewer', get('/a', only('1', '2')), get('/a', only('1')), true],
    ['fewer values no more', get('/a', only('1')), get('/a', only('1', '2')), false],
  ];
  for (const [name, wide, narrow, verdict] of cases)
    it(`${verdict ? 'when' : 'not when'}: ${name}`, () => expect(covers(wide, narrow)).toBe(verdict));

  it('not of another method', () => expect(covers(get('/a'), { method: 'POST', path: '/a' })).toBe(false));
});
