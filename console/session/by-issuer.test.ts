import { readFileSync } from 'node:fs';
import { request } from 'undici';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { freePort } from '../../testing/ports.ts';
import { Browser } from '../testing/browser.ts';
import { startEnvironment, type TestEnvironment } from '../testing/environment.ts';
import type { TestIssuer } from '../testing/issuer.ts';
import { bindGroup, startWithIssuer } from '../testing/with-issuer.ts';

/** Signing in with a real issuer, and the identity that a person then has at the API server. */

const SESSION = '__Host-space-session';
const TRIP = '__Host-space-trip';
/** Groups of somebody who is in many. */
const MANY = Array.from({ length: 80 }, (_, index) => `team-${index}`);

let environment: TestEnvironment;
let issuer: TestIssuer;
let origin: string;
let settings: Readonly<Record<string, string>>;

beforeAll(async () => {
  environment = await startEnvironment();
  const groups = ['stewards', 'cluster-owners', ...MANY];
  ({ issuer, origin, settings } = await startWithIssuer(environment, groups));
  await bindGroup(environment, 'stewards', 'viewer');
});
afterAll(async () => {
  await environment?.close();
  await issuer?.stop();
});
beforeEach(() => {
  issuer.claims = { sub: 'mia', groups: ['stewards'] };
});

/** To the issuer and back: the answer of the console. */
async function comeBack(who: Browser, to = '/capsules') {
  const sent = await who.once('GET', `/sign-in/issuer?to=${encodeURIComponent(to)}`);
  expect(sent.status).toBe(303);
  return who.once('GET', await issuer.goThrough(String(sent.headers['location'])));
}

describe('an issuer whose CA is exchanged', () => {
  it('is trusted with the new one, without a restart', async () => {
    const port = await freePort();
    const elsewhere = `http://localhost:${port}`;
    const strange = readFileSync(environment.variables['KUBERNETES_CA_FILE'] ?? '', 'utf8');
    const OIDC_CA_FILE = environment.write('issuer-ca.crt', strange);
    await environment.start({ ...settings, LISTEN_PORT: String(port), ORIGINS: elsewhere, OIDC_CA_FILE });
    const sent = async () => (await new Browser(elsewhere).once('GET', '/sign-in/issuer')).status;
    expect(await sent()).toBe(502);
    environment.write('issuer-ca.crt', readFileSync(issuer.caFile, 'utf8'));
    await expect.poll(sent, { timeout: 240_000 }).toBe(303);
  });
});

describe('a picture or a frame of another site', () => {
  it('does not use up the attempts to sign in', async () => {
    const port = await freePort();
    const ours = `http://localhost:${port}`;
    await environment.start({
      ...settings,
      LISTEN_PORT: String(port),
      ORIGINS: ours,
      SIGN_INS_PER_MINUTE: '3',
    });
    const who = new Browser(ours);
    const picture = {
      'sec-fetch-site': 'cross-site',
      'sec-fetch-mode': 'no-cors',
      'sec-fetch-dest': 'image',
    };
    const frame = {
      'sec-fetch-site': 'cross-site',
      'sec-fetch-mode': 'navigate',
      'sec-fetch-dest': 'iframe',
    };
    for (const path of ['/sign-in/issuer', '/sign-in/issuer/answer?code=x&state=x'])
      for (const headers of [picture, frame, picture, frame])
        expect((await who.once('GET', path, undefined, headers)).status).toBe(403);
    const link = {
      'sec-fetch-site': 'same-origin',
      'sec-fetch-mode': 'navigate',
      'sec-fetch-dest': 'document',
    };
    expect((await who.once('GET', '/sign-in/issuer', undefined, link)).status).toBe(303);
  });
});

describe('with an issuer', () => {
  it('a person has name and groups with the prefix at the API server, and their rights', async () => {
    const who = new Browser(origin);
    const back = await comeBack(who);
    expect(back.status).toBe(200);
    expect(back.headers['refresh']).toBe('0; url=/capsules');
    expect(who.cookies.has(SESSION)).toBe(true);
    expect(who.cookies.has(TRIP)).toBe(false);
    const page = await who.get('/capsules');
    expect(page.status).toBe(200);
    expect(page.text).toContain('oidc:mia');
    issuer.claims = { sub: 'tom', groups: [] };
    const stranger = new Browser(origin);
    await comeBack(stranger);
    expect((await stranger.get('/capsules')).status).toBe(403);
  });

  it('a person is in no group that is not configured, and in none of the cluster’s own', async () => {
    issuer.claims = { sub: 'mia', groups: ['system:masters', 'others', 'oidc:stewards'] };
    const who = new Browser(origin);
    await comeBack(who);
    expect((await who.get('/capsules')).status).toBe(403);
  });

  it('an answer is accepted once, from the browser that began, with its state', async () => {
    const who = new Browser(origin);
    const sent = await who.once('GET', '/sign-in/issuer');
    const location = new URL(String(sent.headers['location']));
    expect(location.searchParams.get('code_challenge_method')).toBe('S256');
    for (const name of ['state', 'nonce', 'code_challenge'])
      expect(location.searchParams.get(name)?.length, name).toBeGreaterThan(40);
    const path = await issuer.goThrough(location.href);
    const other = new Browser(origin);
    expect((await other.once('GET', path)).status).toBe(422);
    await other.once('GET', '/sign-in/issuer');
    expect((await other.once('GET', path)).status).toBe(502);
    expect(other.cookies.has(SESSION)).toBe(false);
    const copy = new Map(who.cookies);
    expect((await who.once('GET', path)).status).toBe(200);
    expect(who.cookies.has(SESSION)).toBe(true);
    const again = new Browser(origin);
    for (const [name, value] of copy) again.cookies.set(name, value);
    expect((await again.once('GET', path)).status).toBe(502);
    expect(again.cookies.has(SESSION)).toBe(false);
  });

  it('a person in several groups is in each of them, also for the stream of a page', async () => {
    issuer.claims = { sub: 'mia', groups: ['cluster-owners', 'stewards'] };
    const who = new Browser(origin);
    await comeBack(who);
    expect((await who.get('/capsules')).status).toBe(200);
    const cookie = [...who.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const { statusCode, body } = await request(`${origin}/live?page=/capsules`, { headers: { cookie } });
    body.on('error', () => {}).destroy();
    expect(statusCode).toBe(200);
  });

  it('a person in eighty configured groups is signed in, and stays signed in', async () => {
    issuer.claims = { sub: 'mia', groups: [...MANY, 'stewards'] };
    const who = new Browser(origin);
    expect((await comeBack(who)).status).toBe(200);
    const page = await who.get('/capsules');
    expect([page.path, page.status]).toEqual(['/capsules', 200]);
  });

  it('a sign-in in two windows succeeds with the later one, also if the other returns first', async () => {
    const who = new Browser(origin);
    const [first, second] = [
      await who.once('GET', '/sign-in/issuer'),
      await who.once('GET', '/sign-in/issuer'),
    ].map(({ headers }) => String(headers['location']));
    expect((await who.once('GET', await issuer.goThrough(first ?? ''))).status).toBe(502);
    expect(who.cookies.has(SESSION)).toBe(false);
    expect((await who.once('GET', await issuer.goThrough(second ?? ''))).status).toBe(200);
    expect(who.cookies.has(SESSION)).toBe(true);
  });

  it('a sign-in creates a new session, whatever cookies came, and redirects only to pages of the console', async () => {
    const who = new Browser(origin);
    who.cookies.set(SESSION, 'planted');
    const back = await comeBack(who, 'https://evil.test/\r\nx: y');
    expect(back.headers['refresh']).toBe('0; url=/');
    expect(back.headers['x']).toBeUndefined();
    expect(who.cookies.get(SESSION)).not.toBe('planted');
    expect((await who.get('/')).text).toContain('oidc:mia');
  });

  it('the cookie for the redirect is lax and that of the session strict, and no page may be framed', async () => {
    const who = new Browser(origin);
    const sent = await who.once('GET', '/sign-in/issuer');
    expect(String(sent.headers['set-cookie'])).toMatch(/__Host-space-trip=.*HttpOnly; Secure; SameSite=Lax/);
    const back = await who.once('GET', await issuer.goThrough(String(sent.headers['location'])));
    const lines = [back.headers['set-cookie'] ?? []].flat();
    expect(lines.find((line) => line.startsWith(SESSION))).toContain('SameSite=Strict');
    for (const { headers } of [sent, back]) {
      expect(headers['x-frame-options']).toBe('DENY');
      expect(headers['content-security-policy']).toContain("frame-ancestors 'none'");
    }
  });

  it('nothing of an answer is in the log, and a refusal of the issuer is reported without its text', async () => {
    const who = new Browser(origin);
    await who.once('GET', '/sign-in/issuer');
    const refused = await who.once(
      'GET',
      '/sign-in/issuer/answer?error=access_denied&error_description=BOOM',
    );
    expect(refused.status).toBe(502);
    expect(refused.html).not.toContain('BOOM');
    const log = environment.log.join('\n');
    expect(log).not.toContain('secret-of-the-console');
    expect(log).not.toMatch(/code=|eyJ/);
  });

  it('the console offers none if none is configured', async () => {
    const plain = new Browser(environment.origin);
    expect((await plain.once('GET', '/sign-in/issuer')).status).toBe(404);
    expect((await plain.get('/sign-in')).text).not.toContain('Sign in with localhost');
    expect((await new Browser(origin).get('/sign-in')).text).toContain('Sign in with localhost');
  });
});
