/** Attacks on a signed-in person by another site, a link, a planted cookie or an author's text. */
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { type DefaultTreeAdapterTypes, parse } from 'parse5';
import type { Browser as Chromium } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { manifest } from '../operator/testing/manifest.ts';
import { freePort } from '../testing/ports.ts';
import { Browser } from './testing/browser.ts';
import { windowOf } from './testing/browser-window.ts';
import { launchChromium } from './testing/chromium.ts';
import { startEnvironment, type TestEnvironment } from './testing/environment.ts';
import { forged, formTokenOf } from './testing/forged.ts';
import { EVERY_ROUTE } from './testing/routes-of.ts';
import { condition, HOSTILE, input, type Subjects, subjects } from './testing/subjects.ts';

const SESSION = '__Host-space-session';

let environment: TestEnvironment;
let made: Subjects;
let admin: Browser;

/** Used in every text field of an object. The rules of manifests refuse characters that turn text. */
const TEXT = HOSTILE.replace('\u202e', '');
const hostile = manifest('ledger', {
  platform: {
    ...manifest('ledger').platform,
    name: TEXT.slice(0, 80),
    summary: TEXT.slice(0, 80),
    description: TEXT,
    genesis: HOSTILE,
  },
  network: { allowed_hosts: ['javascript:alert(1)', '"><script>alert(1)</script>'] },
  stored_inputs: { bank: input({ label: TEXT.slice(0, 80), description: TEXT }) },
});
const wrong = [condition('Ready', 'False', 'ManifestInvalid', HOSTILE)];

beforeAll(async () => {
  // There is no broker: everything here is refused before a broker is called.
  environment = await startEnvironment({ OBJECT_STORE_URL: `http://127.0.0.1:${await freePort()}` });
  made = subjects(environment);
  await made.capsule('household', { approval: 'manual', displayName: TEXT.slice(0, 80) }, wrong);
  await made.assistant('ledger', { capsule: 'household', manifest: hostile }, wrong);
  await environment.policyServer.create('/apis/events.k8s.io/v1/namespaces/home/events', {
    metadata: { name: 'hostile' },
    regarding: { apiVersion: 'platform.space/v1', kind: 'Assistant', name: 'ledger', namespace: 'home' },
    eventTime: '2026-11-22T20:14:00.000000Z',
    type: 'Warning',
    reason: HOSTILE.slice(0, 100),
    note: HOSTILE,
    action: 'Reconcile',
    reportingController: 'platform.space/operator',
    reportingInstance: 'operator-0',
  });
  await environment.grant('admin', [
    { apiGroups: [''], resources: ['secrets'], verbs: ['get', 'create', 'patch'] },
    { apiGroups: ['events.k8s.io'], resources: ['events'], verbs: ['list'] },
  ]);
  admin = await environment.signedIn('admin');
});
afterAll(() => environment?.close());

const pathsOf = (wanted: 'GET' | 'POST') =>
  EVERY_ROUTE.filter(({ method }) => method === wanted).map(({ path }) =>
    path.replace(':capsule', 'household').replace(':assistant', 'ledger').replace(':key', 'bank'),
  );
const ACTS = pathsOf('POST');
/** The archive is saved by the browser, and no page. */
const PAGES = pathsOf('GET').filter((path) => path !== '/diagnostics/archive');

/** All that an act could change. */
async function world(): Promise<string> {
  const kinds = ['capsules', 'assistants'].map((kind) => `/apis/platform.space/v1/namespaces/home/${kind}`);
  const lists = [...kinds, '/api/v1/namespaces/home/secrets'].map(
    async (path) => (await made.get(path)).items,
  );
  return JSON.stringify(await Promise.all(lists));
}

const FOREIGN = 'was not sent by a page of the console';
const FIELDS = { value: 'S3cret-of-the-bank', digest: 'x', name: 'x', generation: '1' };

describe('a forged request', () => {
  it.each(ACTS)('to %s is refused from another site, although its token is right', async (act) => {
    const { origin } = environment;
    const fields = { ...FIELDS, form_token: await formTokenOf(environment, admin, act) };
    const was = await world();
    const from: Record<string, string>[] = [
      {},
      { origin: 'null' },
      { origin: 'https://evil.org' },
      { origin: `${origin}.evil.org` },
      { origin: origin.replace('http:', 'https:') },
      { origin, 'sec-fetch-site': 'cross-site' },
      { origin, 'sec-fetch-site': 'same-site' },
    ];
    for (const headers of from) {
      const { status, text } = await admin.post(act, fields, headers);
      expect([status, text.includes(FOREIGN)], JSON.stringify(headers)).toEqual([403, true]);
    }
    expect(await world()).toBe(was);
  });

  it.each(ACTS)('to %s is refused without a token of this session and address', async (act) => {
    const other = await environment.signedIn('admin');
    const was = await world();
    const tokens = [
      undefined,
      '',
      'x'.repeat(43),
      await formTokenOf(environment, other, act),
      await formTokenOf(environment, admin, `${act}/`),
      await formTokenOf(environment, admin, '/sign-out'),
    ];
    for (const form_token of tokens) {
      const { status, text } = await admin.post(
        act,
        form_token === undefined ? FIELDS : { ...FIELDS, form_token },
      );
      expect([status, text.includes(FOREIGN)], form_token).toEqual([403, true]);
    }
    expect(await world()).toBe(was);
  });

  it('changes nothing by GET', async () => {
    const was = await world();
    for (const act of ACTS) expect((await admin.get(`${act}?value=x`)).status, act).toBe(404);
    expect(await world()).toBe(was);
  });
});

describe('a planted cookie', () => {
  it('next to the real one makes both invalid, and never signs in somebody else', async () => {
    const [mine, planted] = [await environment.signedIn('viewer'), await environment.signedIn('admin')];
    const pair = [planted, mine].map((one) => `${SESSION}=${one.cookies.get(SESSION)}`);
    for (const cookie of [pair.join('; '), pair.toReversed().join('; ')]) {
      const answer = await new Browser(environment.origin).once('GET', '/', undefined, { cookie });
      expect([answer.status, answer.headers['location']]).toEqual([303, '/sign-in?to=%2F']);
    }
  });

  it('from before a sign-in is not valid for forms after it', async () => {
    const attacker = await environment.signedIn('viewer');
    const known = await formTokenOf(environment, attacker, '/capsules/household/suspend');
    const victim = new Browser(environment.origin);
    victim.cookies.set(SESSION, attacker.cookies.get(SESSION) ?? '');
    await victim.send(await victim.get('/sign-in'), '/sign-in', { token: environment.tokens.admin });
    const page = await victim.post('/capsules/household/suspend', { form_token: known });
    expect([page.status, page.text.includes(FOREIGN)]).toEqual([403, true]);
  });
});

describe('a link to another site', () => {
  it('leads only to pages of the console, whoever follows it', async () => {
    const odd = [
      '//evil.org',
      '///evil.org/',
      '/\\evil.org',
      '/%5cevil.org',
      '/%2f%2fevil.org',
      '/capsules//evil.org',
    ];
    for (const who of [admin, new Browser(environment.origin)])
      for (const path of [...odd, ...odd.map((one) => `/sign-in?to=${encodeURIComponent(one)}`)]) {
        const { status, headers, html } = await who.once('GET', path);
        expect([200, 303, 404], path).toContain(status);
        expect(headers['refresh'], path).toBeUndefined();
        expect(headers['location'] ?? '/', path).toMatch(/^\/(?![/\\])/);
        expect(html).not.toMatch(/(?:href|action)="[^"]*evil/);
      }
  });

  it('leads nowhere from an act on a Capsule whose name is an address', async () => {
    for (const name of ['%2f%2fevil.org', '..%2f..%2fevil.org', '%5c%5cevil.org']) {
      const page = await forged(environment, admin, `/capsules/${name}/suspend`, {});
      expect(page.status, name).toBeGreaterThanOrEqual(400);
      expect(page.headers['location']).toBeUndefined();
    }
  });
});

describe('a line break in an address', () => {
  /** The raw bytes of the answer, which a client would already have parsed. */
  async function raw(path: string, cookie: string): Promise<string> {
    const { hostname, port, host } = new URL(environment.origin);
    const socket = connect(Number(port), hostname);
    await once(socket, 'connect');
    socket.write(`GET ${path} HTTP/1.1\r\nHost: ${host}\r\nCookie: ${cookie}\r\nConnection: close\r\n\r\n`);
    return text(socket);
  }

  it('splits no answer and sets no header', async () => {
    const injected = encodeURIComponent(
      'x\r\nSet-Cookie: planted=1\r\nLocation: https://evil.org\r\n\r\n<html>',
    );
    const cookie = `${SESSION}=${admin.cookies.get(SESSION)}`;
    for (const path of [
      `/capsules/${injected}`,
      `/capsules/household/assistants/${injected}`,
      `/sign-in?to=/capsules/${injected}`,
      `/sign-in/issuer?to=${injected}`,
      `/${injected}`,
    ])
      for (const sent of [cookie, '']) {
        const answer = await raw(path, sent);
        const [head = ''] = answer.split('\r\n\r\n');
        expect(head, path).toMatch(/^HTTP\/1\.1 [2-5]\d\d /);
        expect(head, path).not.toMatch(/^(?:set-cookie: planted|location: https)/im);
        expect(answer.match(/^HTTP\/1\.1/gm), path).toHaveLength(1);
      }
  });
});

describe('a text of an author (stored XSS)', () => {
  type Node = DefaultTreeAdapterTypes.Node;
  function* elements(node: Node): Generator<DefaultTreeAdapterTypes.Element> {
    if ('tagName' in node) yield node;
    for (const child of 'childNodes' in node ? node.childNodes : []) yield* elements(child);
  }

  it.each(PAGES)('becomes no element, handler or address that runs code, on %s', async (path) => {
    const { html } = await admin.get(path);
    const found = [...elements(parse(html))];
    expect(found.length).toBeGreaterThan(20);
    const scripts = found.filter(({ tagName }) => tagName === 'script');
    expect(scripts.map(({ attrs }) => attrs.find(({ name }) => name === 'src')?.value)).toEqual([
      expect.stringMatching(/^\/assets\/[0-9a-f]{16}\/live\.js$/),
    ]);
    const forbidden = ['img', 'iframe', 'object', 'embed', 'style', 'base', 'meta'];
    const odd = found.filter(
      ({ tagName, attrs }) =>
        (forbidden.includes(tagName) &&
          !(tagName === 'meta' && attrs.some(({ name }) => ['charset', 'name'].includes(name)))) ||
        attrs.some(
          ({ name, value }) => /^on|^style$|^srcdoc$/.test(name) || /^\s*(?:javascript|data):/i.test(value),
        ),
    );
    expect(odd.map(({ tagName }) => tagName)).toEqual([]);
    expect(html).not.toContain('\u202e');
  });

  it('is shown on those pages, without which the test would prove nothing', async () => {
    for (const path of ['/', '/capsules/household', '/capsules/household/assistants/ledger'])
      expect((await admin.get(path)).text, path).toContain('<script>alert(1)</script>');
  });
});

describe('a page of another site, in a real browser', () => {
  let chromium: Chromium;
  let evil: Server;
  let body = '';
  let elsewhere: string;

  beforeAll(async () => {
    chromium = await launchChromium();
    evil = createServer((_request, response) => {
      response
        .writeHead(200, { 'content-type': 'text/html' })
        .end(`<!doctype html><title>Evil</title>${body}`);
    });
    const port = await freePort();
    await new Promise<void>((resolve) => evil.listen(port, '127.0.0.1', resolve));
    // Not the site of `localhost`, where the console is.
    elsewhere = `http://127.0.0.1:${port}/`;
  });
  afterAll(async () => {
    await chromium?.close();
    evil?.close();
  });

  it('shows none of ours in a frame (clickjacking)', async () => {
    const { context, page } = await windowOf(chromium, { environment }, 'admin');
    body = `<iframe src="${environment.origin}/capsules/household"></iframe>`;
    await page.goto(elsewhere);
    const frames = () =>
      page
        .mainFrame()
        .childFrames()
        .map((frame) => frame.url());
    await expect.poll(frames, { timeout: 240_000 }).toEqual(['chrome-error://chromewebdata/']);
    await context.close();
  });

  it('cannot send a form of the console as the person', async () => {
    const { context, page } = await windowOf(chromium, { environment }, 'admin');
    const token = await formTokenOf(environment, admin, '/capsules/household/suspend');
    body = `<form method="post" action="${environment.origin}/capsules/household/suspend"><input name="form_token" value="${token}"><button>Win</button></form>`;
    const was = await world();
    await page.goto(elsewhere);
    await page.getByRole('button', { name: 'Win' }).click();
    await page.waitForURL(`${environment.origin}/**`);
    expect(await page.content()).not.toContain('Suspended');
    expect(await world()).toBe(was);
    await context.close();
  });

  it('gets no reference to the console’s window, and reads nothing of it', async () => {
    const { context, page } = await windowOf(chromium, { environment }, 'admin');
    await page.goto(elsewhere);
    const opened = context.waitForEvent('page');
    await page.evaluate(`globalThis.theirs = open(${JSON.stringify(environment.origin)})`);
    await (await opened).waitForLoadState();
    await expect.poll(() => page.evaluate('theirs.closed'), { timeout: 240_000 }).toBe(true);
    const read = await page.evaluate(
      `fetch(${JSON.stringify(environment.origin)}, { credentials: 'include' }).then(() => 'read', () => 'refused')`,
    );
    expect(read).toBe('refused');
    await context.close();
  });
});
