import { readFileSync } from 'node:fs';
import { createServer } from 'node:https';
import { Secret } from '@space/broker-kit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makePki } from '../../testing/certificates.ts';
import { freePort } from '../../testing/ports.ts';
import { startIssuer, type TestIssuer } from '../testing/issuer.ts';
import { Issuer, type IssuerOptions } from './issuer.ts';
import { IssuerError } from './issuer-error.ts';

const BACK = 'https://console.test/sign-in/issuer/answer';

let real: TestIssuer;
const opened: Issuer[] = [];

beforeAll(async () => {
  real = await startIssuer([BACK]);
});
afterAll(async () => {
  for (const one of opened) await one.close();
  await real?.stop();
});

function issuer(options: Partial<IssuerOptions> = {}): Issuer {
  const made = new Issuer({
    url: real.url,
    clientId: 'space',
    clientSecret: () => new Secret('secret-of-the-console'),
    authority: () => readFileSync(real.caFile, 'utf8'),
    scope: 'openid',
    userClaim: 'sub',
    groupsClaim: 'groups',
    prefix: 'oidc:',
    groups: ['stewards', 'owners'],
    ...options,
  });
  opened.push(made);
  return made;
}

/** To the issuer and back: what it is asked for, and what it answers. */
async function answered(asked: Issuer) {
  const { url, proof } = await asked.begin(BACK);
  return { proof, answer: new URL(await real.goThrough(url.href), BACK) };
}

async function personBy(options: Partial<IssuerOptions>, claims: Record<string, unknown>) {
  real.claims = { sub: 'mia', ...claims };
  const asked = issuer(options);
  const { answer, proof } = await answered(asked);
  return asked.finish(answer, proof);
}

describe('an issuer that changes its discovery document', () => {
  it('is read again after some minutes, and the old document is used while it is unavailable', async () => {
    const pki = await makePki();
    const port = await freePort();
    const url = `https://localhost:${port}`;
    let place = '/one';
    const server = createServer(await pki.issue('localhost'), (_, response) => {
      if (place === '') return void response.writeHead(503).end();
      const endpoints = { authorization_endpoint: url + place, token_endpoint: url, jwks_uri: url };
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ issuer: url, ...endpoints }));
    });
    await new Promise<void>((resolve) => void server.listen(port, '127.0.0.1', () => resolve()));
    let now = 0;
    const asked = issuer({ url, authority: () => pki.authority, now: () => now });
    const sentTo = async () => (await asked.begin(BACK)).url.pathname;
    expect(await sentTo()).toBe('/one');
    place = '/two';
    now += 299_000;
    expect(await sentTo()).toBe('/one');
    now += 1_000;
    expect(await sentTo()).toBe('/two');
    place = '';
    now += 300_000;
    expect(await sentTo()).toBe('/two');
    place = '/three';
    now += 30_000;
    expect(await sentTo()).toBe('/three');
    server.closeAllConnections();
    server.close();
    await pki.remove();
  });
});

describe('an issuer', () => {
  it('names a person and the configured ones of their groups', async () => {
    const groups = ['others', 'stewards', 'system:masters', 'oidc:owners'];
    expect(await personBy({}, { groups })).toEqual({ user: 'oidc:mia', groups: ['oidc:stewards'] });
    expect(await personBy({}, { groups: 'owners' })).toMatchObject({ groups: ['oidc:owners'] });
    expect(await personBy({}, {})).toMatchObject({ groups: [] });
  });

  it.each(['state', 'nonce', 'verifier'] as const)('is refused with another %s', async (which) => {
    real.claims = { sub: 'mia' };
    const asked = issuer();
    const { answer, proof } = await answered(asked);
    const other = (await asked.begin(BACK)).proof[which];
    await expect(asked.finish(answer, { ...proof, [which]: other })).rejects.toThrow(IssuerError);
  });

  it('is refused without the state', async () => {
    const asked = issuer();
    const { answer, proof } = await answered(asked);
    answer.searchParams.delete('state');
    await expect(asked.finish(answer, proof)).rejects.toThrow(IssuerError);
  });

  it('is refused if it answers for another issuer', async () => {
    const asked = issuer();
    const { answer, proof } = await answered(asked);
    answer.searchParams.set('iss', 'https://other.test');
    await expect(asked.finish(answer, proof)).rejects.toThrow(IssuerError);
  });

  it.each([
    ['', 'system:admin'],
    ['system:', 'mia'],
    ['sys', 'tem:admin'],
    ['', ' mia'],
    ['oidc:', 'mia\r\nImpersonate-Group: system:masters'],
    ['oidc:', 'mi\u0430'],
    ['oidc:', 'm'.repeat(256)],
  ])(
    'names nobody of the cluster’s own, and nobody that no header can hold: %j before %j',
    async (prefix, name) => {
      await expect(personBy({ prefix, userClaim: 'name' }, { name })).rejects.toThrow(IssuerError);
    },
  );

  it('puts nobody in a group of the cluster’s own, whatever is configured', async () => {
    const options = { prefix: '', groups: ['system:masters', 'stewards'] };
    const { groups } = await personBy(options, { groups: ['system:masters', 'stewards'] });
    expect(groups).toEqual(['stewards']);
  });

  it.each([[false], ['false'], [0]])(
    'names nobody by an address whose verification is %j',
    async (verified) => {
      const claims = { email: 'mia@example.org', email_verified: verified };
      await expect(personBy({ userClaim: 'email' }, claims)).rejects.toThrow(IssuerError);
    },
  );

  it('names a person by an address that is verified or has no statement about it', async () => {
    const user = 'oidc:mia@example.org';
    const email = 'mia@example.org';
    expect(await personBy({ userClaim: 'email' }, { email, email_verified: true })).toMatchObject({ user });
    expect(await personBy({ userClaim: 'email' }, { email })).toMatchObject({ user });
  });

  it('names nobody by a claim that is not a string', async () => {
    for (const name of [undefined, '', 7, ['mia']])
      await expect(personBy({ userClaim: 'name' }, { name })).rejects.toThrow(IssuerError);
  });
});
