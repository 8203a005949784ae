import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { Agent } from 'undici';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeAuthority } from '../../testing/certificates.ts';
import { eventually } from '../../testing/eventually.ts';
import { CONTENT_SECURITY_POLICY } from '../http/headers.ts';
import { Browser, withoutOurs } from '../testing/browser.ts';
import { startEnvironment, type TestEnvironment } from '../testing/environment.ts';

let environment: TestEnvironment;
beforeAll(async () => {
  environment = await startEnvironment();
});
afterAll(() => environment.close());

const SESSION = '__Host-space-session';
const browser = () => new Browser(environment.origin);
const signIn = async (who: Browser, token: string, fields: Record<string, string> = {}) =>
  who.send(await who.get('/sign-in'), '/sign-in', { token, ...fields });

/** PEM of a CA that has signed no certificate here. */
function strangeAuthority(): string {
  const directory = mkdtempSync(join(tmpdir(), 'space-console-'));
  const authority = readFileSync(makeAuthority(directory, 'stranger').cert, 'utf8');
  rmSync(directory, { recursive: true });
  return authority;
}

describe('signing in', () => {
  it('accepts a token that the API server knows, and shows its user', async () => {
    const who = browser();
    const page = await signIn(who, environment.tokens.viewer);
    expect(page.status).toBe(200);
    expect(page.html).toContain('system:serviceaccount:home:viewer');
    expect(page.text).toContain('Nothing needs repair.');
  });

  it('refuses an unknown token, and shows nothing of it', async () => {
    for (const token of [
      '',
      'x',
      'spc_osp_not-a-token-of-kubernetes',
      `${environment.tokens.viewer}x`,
      'a\r\nb: c',
    ]) {
      const who = browser();
      const page = await signIn(who, token);
      expect(page.status, token).toBe(422);
      expect(who.cookies.has(SESSION)).toBe(false);
      if (token.length > 3) expect(page.html).not.toContain(token);
    }
  });

  it('keeps the token in a cookie that only this host gets, no script reads and no other site sends', async () => {
    const who = browser();
    const { forms } = await who.get('/sign-in');
    const body = new URLSearchParams({ ...forms[0]!.fields, token: environment.tokens.viewer }).toString();
    const answer = await who.once('POST', '/sign-in', body, { origin: environment.origin });
    const lines = [answer.headers['set-cookie'] ?? []].flat();
    const line = lines.find((one) => one.startsWith(SESSION)) ?? '';
    for (const attribute of ['Path=/', 'Secure', 'HttpOnly', 'SameSite=Strict', 'Max-Age=28800'])
      expect(line).toContain(attribute);
    expect(line).not.toMatch(/Domain/i);
    const [header = ''] = line.slice(SESSION.length + 1).split('.');
    expect(JSON.parse(Buffer.from(header, 'base64url').toString())).toMatchObject({
      alg: 'dir',
      enc: 'A256GCM',
    });
    for (const part of environment.tokens.viewer.split('.')) expect(line).not.toContain(part);
  });

  it('is limited in attempts from one address', async () => {
    const { origin } = await environment.start({ SIGN_INS_PER_MINUTE: '3' });
    const who = new Browser(origin);
    for (let i = 0; i < 3; i += 1) expect((await signIn(who, 'wrong')).status).toBe(422);
    // On a busy machine the three may take as long as it takes to have another one.
    await eventually(async () => (await signIn(who, environment.tokens.viewer)).status === 429, {
      what: 'no attempt to be left',
    });
  });

  it('reports if the API server is unavailable, or refuses the console’s request', async () => {
    for (const settings of [
      { KUBERNETES_URL: 'https://127.0.0.1:1' },
      { KUBERNETES_TOKEN_FILE: environment.write('nobodys', environment.tokens.nobody) },
    ]) {
      const { origin } = await environment.start(settings);
      const page = await signIn(new Browser(origin), environment.tokens.viewer);
      expect(page.status).toBe(503);
      expect(page.text).toContain('Nobody can sign in now');
    }
  });

  it('logs the code of a failed request to the API server, and nothing of what was sent', async () => {
    const { origin } = await environment.start({ KUBERNETES_URL: 'https://127.0.0.1:1' });
    const begun = environment.log.length;
    expect((await signIn(new Browser(origin), environment.tokens.viewer)).status).toBe(503);
    const told = environment.log.slice(begun).find((line) => line.includes('request failed'));
    expect(told).toContain('"code":"ECONNREFUSED"');
  });

  it('trusts an exchanged CA of the API server, without a restart', async () => {
    const authority = readFileSync(environment.variables['KUBERNETES_CA_FILE'] ?? '', 'utf8');
    const KUBERNETES_CA_FILE = environment.write('api-ca.crt', strangeAuthority());
    const { origin } = await environment.start({ KUBERNETES_CA_FILE });
    const who = new Browser(origin);
    expect((await signIn(who, environment.tokens.viewer)).status).toBe(503);
    environment.write('api-ca.crt', '');
    environment.write('api-ca.crt', authority);
    const entered = async () => (await signIn(who, environment.tokens.viewer)).status;
    await expect.poll(entered, { timeout: 240_000 }).toBe(200);
  });

  it('writes no token into the log', () => {
    for (const token of Object.values(environment.tokens))
      expect(environment.log.join('')).not.toContain(token);
  });

  it('redirects to a page of the console and nowhere else', async () => {
    const wanted = [
      ['/capsules', '/capsules'],
      ['/capsules/household', '/capsules/household'],
      ['/diagnostics', '/diagnostics'],
      ['/diagnostics/archive', '/diagnostics'],
      ...['//evil.org', 'https://evil.org', '/\\evil.org', '/capsules/../..//evil.org', '/%2F/evil.org'].map(
        (to) => [to, '/'],
      ),
      ...['javascript:alert(1)', '/capsules\r\nset-cookie: a=b', '/sign-out'].map((to) => [to, '/']),
    ] as const;
    for (const [to, ends] of wanted) {
      const who = browser();
      const page = await who.get(`/sign-in?to=${encodeURIComponent(to ?? '')}`);
      const fields = { ...page.forms[0]!.fields, token: environment.tokens.viewer, to: to ?? '' };
      const answer = await who.once('POST', '/sign-in', new URLSearchParams(fields).toString(), {
        origin: environment.origin,
      });
      expect([answer.status, answer.headers['location']], to).toEqual([303, ends]);
    }
  });
});

describe('a session', () => {
  it('is new after each sign-in, whatever cookie came before', async () => {
    const attacker = await environment.signedIn('viewer');
    const planted = attacker.cookies.get(SESSION) ?? '';
    const victim = browser();
    victim.cookies.set(SESSION, planted);
    const page = await signIn(victim, environment.tokens.admin);
    expect(page.text).toContain('home:admin');
    expect(victim.cookies.get(SESSION)).not.toBe(planted);
    expect((await attacker.get('/')).text).toContain('home:viewer');
  });

  it('ends when somebody signs out, also for a copy of its cookie', async () => {
    const who = await environment.signedIn('viewer');
    const copy = browser();
    copy.cookies.set(SESSION, who.cookies.get(SESSION) ?? '');
    expect((await copy.get('/')).text).toContain('home:viewer');
    await who.send(await who.get('/'), '/sign-out');
    expect(who.cookies.has(SESSION)).toBe(false);
    expect((await copy.get('/')).path).toMatch(/^\/sign-in/);
  });

  it('leaves no cookie of the console behind, and removes none of another program at the same host', async () => {
    const who = await environment.signedIn('viewer');
    const page = await who.get('/');
    const fields = new URLSearchParams(page.forms[0]!.fields).toString();
    const { headers } = await who.once('POST', '/sign-out', fields, { origin: environment.origin });
    const ended = [headers['set-cookie'] ?? []]
      .flat()
      .filter((line) => line.includes('Expires=Thu, 01 Jan 1970'));
    expect(ended.map((line) => line.split('=', 1)[0]).sort()).toEqual([
      '__Host-space-kept',
      SESSION,
      '__Host-space-sign-in',
      '__Host-space-trip',
    ]);
    // Browsers apply "cookies" to the whole registered domain.
    expect(headers['clear-site-data']).not.toContain('cookies');
  });

  it('ends at its time, whatever is done in it', async () => {
    let at = new Date();
    const { origin } = await environment.start({ SESSION_MINUTES: '5' }, () => at);
    const who = new Browser(origin);
    await signIn(who, environment.tokens.viewer);
    at = new Date(at.getTime() + 299_000);
    expect((await who.get('/')).path).toBe('/');
    at = new Date(at.getTime() + 2_000);
    expect((await who.get('/')).path).toMatch(/^\/sign-in/);
  });

  it('stays valid with a new key, and not after the loss of its own', async () => {
    const [old, next] = [randomBytes(32), randomBytes(32)].map((key) => key.toString('base64url'));
    const first = await environment.start({ SESSION_KEYS_FILE: environment.write('first', `${old}\n`) });
    const who = new Browser(first.origin);
    await signIn(who, environment.tokens.viewer);
    const cookie = who.cookies.get(SESSION) ?? '';
    for (const [keys, ends] of [
      [`${next}\n${old}\n`, '/'],
      [`${next}\n`, '/sign-in?to=%2F'],
    ] as const) {
      const { origin } = await environment.start({ SESSION_KEYS_FILE: environment.write('next', keys) });
      const again = new Browser(origin);
      again.cookies.set(SESSION, cookie);
      expect((await again.get('/')).path).toBe(ends);
    }
  });

  it('is not valid in another Space, or as another cookie', async () => {
    const who = await environment.signedIn('viewer');
    const cookie = who.cookies.get(SESSION) ?? '';
    const other = new Browser((await environment.start({ SPACE_NAME: 'lab' })).origin);
    other.cookies.set(SESSION, cookie);
    expect((await other.get('/')).path).toMatch(/^\/sign-in/);
    await who.get('/sign-in');
    who.cookies.set(SESSION, who.cookies.get('__Host-space-sign-in') ?? '');
    expect((await who.get('/')).path).toMatch(/^\/sign-in/);
  });

  it('is refused if a byte of its cookie is changed', async () => {
    const who = await environment.signedIn('viewer');
    const cookie = who.cookies.get(SESSION) ?? '';
    for (const at of [10, Math.floor(cookie.length / 2), cookie.length - 4]) {
      const changed = `${cookie.slice(0, at)}${cookie[at] === 'A' ? 'B' : 'A'}${cookie.slice(at + 1)}`;
      who.cookies.set(SESSION, changed);
      expect((await who.get('/')).path, String(at)).toMatch(/^\/sign-in/);
    }
  });
});

describe('a form', () => {
  const out = (who: Browser, fields: Record<string, string>, headers?: Record<string, string>) =>
    who.post('/sign-out', fields, headers);

  it('is accepted only from a page of the console', async () => {
    const who = await environment.signedIn('viewer');
    const fields = (await who.get('/')).forms[0]!.fields;
    const { origin } = environment;
    const refused: [Record<string, string>, Record<string, string>][] = [
      [fields, {}],
      [fields, { origin: 'null' }],
      [fields, { origin: 'https://evil.org' }],
      [fields, { origin: origin.replace('localhost', '127.0.0.1') }],
      [fields, { origin, 'sec-fetch-site': 'cross-site' }],
      [fields, { origin, 'sec-fetch-site': 'same-site' }],
      [{}, { origin }],
      [{ form_token: `${fields['form_token']}x` }, { origin }],
      [
        {
          form_token: (await (await environment.signedIn('viewer')).get('/')).forms[0]!.fields['form_token']!,
        },
        { origin },
      ],
    ];
    for (const [sent, headers] of refused) {
      const page = await out(who, sent, headers);
      expect(page.status, JSON.stringify(headers)).toBe(403);
      expect(page.text).toContain('was not sent by a page of the console');
    }
    expect((await who.get('/')).text).toContain('home:viewer');
  });

  it('to sign in is accepted only from the browser that requested it', async () => {
    const [mine, theirs] = [browser(), browser()];
    const page = await theirs.get('/sign-in');
    await mine.get('/sign-in');
    const answer = await mine.post('/sign-in', { ...page.forms[0]!.fields, token: environment.tokens.admin });
    expect(answer.status).toBe(422);
    expect(mine.cookies.has(SESSION)).toBe(false);
  });

  it('to sign in is not given to a page that renews itself after its session has ended', async () => {
    const renewing = {
      'sec-fetch-site': 'same-origin',
      'sec-fetch-mode': 'cors',
      'sec-fetch-dest': 'empty',
    };
    const answer = await browser().once('GET', '/sign-in', undefined, renewing);
    expect([answer.status, answer.headers['set-cookie']]).toEqual([403, undefined]);
  });

  it('to sign in may be open in two windows, and either is accepted', async () => {
    for (const which of [0, 1]) {
      const who = browser();
      const windows = [await who.get('/sign-in?to=/capsules'), await who.get('/sign-in')];
      await who.send(windows[which]!, '/sign-in', { token: environment.tokens.viewer });
      expect(who.cookies.has(SESSION), String(which)).toBe(true);
    }
  });

  it('that is far too long leaves its connection usable for the next request', async () => {
    const { origin } = environment;
    const agent = new Agent({ connections: 1, pipelining: 1 });
    let connections = 0;
    agent.on('connect', () => {
      connections += 1;
    });
    const who = new Browser(origin, agent);
    const long = await who.once('POST', '/sign-in', `a=${'x'.repeat(3_000_000)}`, { origin });
    expect(long.status).toBe(413);
    expect((await who.get('/sign-in')).status).toBe(200);
    expect(connections).toBe(1);
    await agent.close();
  });

  it('that breaks off is refused, and not reported as a failure of the console', async () => {
    const { origin, log } = environment;
    const begun = log.length;
    const { hostname, port, host } = new URL(origin);
    const socket = connect(Number(port), hostname);
    await once(socket, 'connect');
    const begins = `POST /sign-in HTTP/1.1\r\nHost: ${host}\r\nOrigin: ${origin}\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n\r\nto`;
    await new Promise<void>((resolve) => socket.write(begins, () => resolve()));
    socket.destroy();
    const told = () => log.slice(begun).find((line) => line.includes('"method":"POST"'));
    await expect.poll(told, { timeout: 240_000 }).toContain('request refused');
  });

  it('of another kind, too long, or with a field twice is refused', async () => {
    const who = await environment.signedIn('viewer');
    const headers = { origin: environment.origin };
    const post = (body: string, more: Record<string, string> = {}) =>
      who.once('POST', '/sign-out', body, { ...headers, ...more });
    expect((await post('{}', { 'content-type': 'application/json' })).status).toBe(415);
    expect((await post('x', { 'content-type': 'text/plain' })).status).toBe(415);
    expect((await post(`a=${'x'.repeat(50_000)}`)).status).toBe(413);
    expect((await post('form_token=a&form_token=b')).status).toBe(400);
  });
});

describe('every answer', () => {
  it('closes the page to scripts, frames, other origins and caches', async () => {
    const who = await environment.signedIn('viewer');
    for (const path of ['/', '/capsules', '/nowhere', '/sign-in', '/capsules/%', '/capsules/nobody']) {
      const { headers } = await who.get(path);
      expect(headers, path).toMatchObject({
        'content-security-policy': CONTENT_SECURITY_POLICY,
        'x-frame-options': 'DENY',
        'x-content-type-options': 'nosniff',
        'referrer-policy': 'same-origin',
        'cache-control': 'no-store',
      });
      expect(headers['x-powered-by']).toBeUndefined();
    }
    expect(CONTENT_SECURITY_POLICY).not.toMatch(/unsafe|https?:|\*/);
  });

  it('has no script and no style in the page, only files of the console', async () => {
    const who = await environment.signedIn('admin');
    for (const path of ['/', '/capsules', '/sign-in'])
      expect(withoutOurs((await who.get(path)).html)).not.toMatch(
        /<script|<style|\son[a-z]+=|\sstyle=|javascript:/i,
      );
  });

  it('shows no stack trace and no path for an impossible request', async () => {
    const who = await environment.signedIn('viewer');
    for (const path of [
      '/capsules/%',
      '/nowhere',
      '/capsules/%00',
      `/capsules/${'x'.repeat(300)}`,
      '/capsules/..%2f..',
    ]) {
      const page = await who.get(path);
      expect(page.status, path).toBe(404);
      expect(page.html).not.toMatch(/\bat .*\.ts|node_modules|Error:/);
    }
  });

  it('is the same for an address that names a host, whatever that host is', async () => {
    const { hostname, port, host } = new URL(environment.origin);
    for (const named of [`http://${host}`, 'http://a:99999', 'http://[', 'http://evil.org']) {
      const socket = connect(Number(port), hostname);
      socket.write(`GET ${named}/sign-in HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
      const [line] = (await text(socket)).split('\r\n');
      expect(['HTTP/1.1 200 OK', 'HTTP/1.1 400 Bad Request', 'HTTP/1.1 404 Not Found'], named).toContain(
        line,
      );
    }
  });

  it('is refused under a foreign name that points to the console’s address', async () => {
    const who = await environment.signedIn('viewer');
    const answer = await who.once('GET', '/', undefined, { host: 'rebound.evil.org' });
    expect(answer.status).toBe(421);
    expect(answer.html).not.toContain('evil.org');
  });
});

describe('the stylesheet', () => {
  it('is served by the console, under a name that changes with its content', async () => {
    const { html } = await browser().get('/sign-in');
    const [, path = ''] = /href="(\/assets\/[0-9a-f]{16}\/style\.css)"/.exec(html) ?? [];
    const sheet = await browser().once('GET', path);
    expect(sheet.headers['content-type']).toBe('text/css; charset=utf-8');
    expect(sheet.headers['cache-control']).toContain('immutable');
    expect(sheet.html).not.toMatch(/@import|url\(/);
  });
});
