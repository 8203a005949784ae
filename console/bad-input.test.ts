/** Refused forms: what the page says, and that only secrets have to be entered again. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import * as z from 'zod';
import { manifest } from '../operator/testing/manifest.ts';
import { freePort } from '../testing/ports.ts';
import { openTcpProxy, type TcpProxy } from '../testing/tcp-proxy.ts';
import type { Browser, Shown } from './testing/browser.ts';
import type { TestEnvironment } from './testing/environment.ts';
import { forged, unsealed } from './testing/forged.ts';
import { OUTSIDE } from './testing/outside.ts';
import { EVERY_ROUTE } from './testing/routes-of.ts';
import { condition, input, type Subjects, subjects } from './testing/subjects.ts';
import { filled, startWithStore, type WithStore } from './testing/with-store.ts';

const CREDENTIALS = '/capsules/household/credentials';
const CREATE = `${CREDENTIALS}/create`;
const ASKING = '/capsules/household/assistants/asking';
const SECRET = 'S3cret-of-somebody';
const PLACE = { endpoint: 'https://s3.bank.org', region: 'eu-central-7', bucket: 'papers-of-mia' };
const ENTERED = {
  name: 'papers',
  ...filled({ ...PLACE, addressing: 'path', 'access-key-id': `${SECRET}-id`, 'secret-access-key': SECRET }),
};

let whole: WithStore;
let environment: TestEnvironment;
let made: Subjects;

beforeAll(async () => {
  whole = await startWithStore();
  ({ environment } = whole);
  made = subjects(environment);
  await made.capsule('household');
  await whole.principal('household');
  const asks = manifest('asking', { stored_inputs: { bank: input() } });
  const unbound = condition('Ready', 'False', 'InputsMissing');
  await made.assistant('asking', { capsule: 'household', manifest: asks }, [unbound]);
  await environment.grant('admin', [
    { apiGroups: [''], resources: ['secrets'], verbs: ['get', 'create', 'patch'] },
  ]);
});
afterAll(() => whole?.close());

const addressOf = (path: string, capsule: string, assistant: string) =>
  path.replace(':capsule', capsule).replace(':assistant', assistant).replace(':key', 'bank');

/** Nothing of a program, and nothing that was to be secret. */
function expectDecent({ html, headers }: Shown): void {
  expect(html).not.toMatch(/\bat .*\.ts:\d|node_modules|Error:|undefined|\[object/);
  expect(html + JSON.stringify(headers)).not.toContain(SECRET);
}

function expectKept({ html }: Shown): void {
  for (const value of ['papers', ...Object.values(PLACE)]) expect(html).toContain(`value="${value}"`);
  expect(html).toMatch(/<option value="path" selected>/);
}

/** A form that a person could send by mistake: what is entered, the status, and what the page says where. */
type Bad = readonly [
  what: string,
  fields: Readonly<Record<string, string>>,
  status: number,
  says: RegExp | string,
];

const stored = (what: string, value: string, says: string): Bad => [
  what,
  { value },
  422,
  new RegExp(`id="input-bank-problem" role="alert">[^<]*${says}`),
];
const quota = (key: string, value: string): Bad => [
  `${key} ${value}`,
  { [key]: value },
  422,
  new RegExp(`id="quota-household-${key}-problem" role="alert">Nothing was changed`),
];
const set = (field: string, value: string, says = 'the format is wrong'): Bad => [
  `${field} ${value.slice(0, 24)}`,
  { ...ENTERED, [field]: value },
  422,
  new RegExp(`id="new-${field.replace(/^(?:field|secret)-/, '')}-problem">[^<]*${says}`),
];
const generations = (fields: Readonly<Record<string, string>>): readonly Bad[] =>
  ['', '-1', '1e3', 'x', '9'.repeat(40)].map((generation) => [
    `generation “${generation}”`,
    { ...fields, generation },
    400,
    'The form cannot be read',
  ]);
const noSet: Bad = [
  'a set of nobody',
  { set_id: 'x', generation: '1' },
  422,
  'The broker does not accept this',
];

/** Actions without input. */
const NOTHING: readonly Bad[] = [];

/** The answer of each action to invalid input. An action of the console that has no row here fails the test. */
const FORMS: Readonly<Record<string, readonly Bad[]>> = {
  'POST /capsules/:capsule/suspend': NOTHING,
  'POST /capsules/:capsule/resume': NOTHING,
  'POST /capsules/:capsule/quota': [
    ['nothing at all', {}, 422, 'Enter at least one new limit.'],
    quota('database', 'much'),
    quota('storage', '-1Gi'),
    quota('assistants', '1.5'),
  ],
  'POST /capsules/:capsule/assistants/:assistant/approve': [
    ['no digest', {}, 409, 'The manifest has changed'],
    ['another digest', { digest: `sha256:${'0'.repeat(64)}` }, 409, 'The manifest has changed'],
  ],
  'POST /capsules/:capsule/assistants/:assistant/suspend': NOTHING,
  'POST /capsules/:capsule/assistants/:assistant/resume': NOTHING,
  'POST /capsules/:capsule/assistants/:assistant/inputs/:key': [
    stored('nothing', '', 'cannot stand in a request'),
    stored('too short', 'aaaa', 'is too easy to guess'),
    stored('too long', 'a1B2'.repeat(1_100), 'cannot stand in a request'),
    stored('of two lines', `${SECRET}\nx: y`, 'cannot stand in a request'),
    stored('not of ASCII', `${SECRET}-ü`, 'cannot stand in a request'),
    ...['', '0'.repeat(64)].map(
      (definition): Bad => [
        `definition “${definition}”`,
        { value: SECRET, definition },
        409,
        'The manifest now defines the input differently',
      ],
    ),
    ['another Secret', { value: SECRET, secret: 'x/value' }, 409, 'The Assistant now names another Secret'],
  ],
  'POST /capsules/:capsule/credentials/create': [
    set('name', 'Papers of Mia', 'lowercase letters'),
    set('name', 'a'.repeat(65), 'lowercase letters'),
    set('field-endpoint', 'http://169.254.169.254/'),
    set('field-region', 'r'.repeat(33)),
    set('field-bucket', 'x'),
    set('field-addressing', 'sideways'),
    set('secret-access-key-id', ''),
    ...generations(ENTERED),
  ],
  'POST /capsules/:capsule/credentials/rotate': [
    ['no keys', { set_id: 'x', generation: '1' }, 422, 'the format is wrong'],
    ...generations(ENTERED),
  ],
  'POST /capsules/:capsule/credentials/select': [noSet, ...generations({})],
  'POST /capsules/:capsule/credentials/delete': [noSet, ...generations({})],
  'POST /sign-in': [
    ['no token', { token: '' }, 422, 'This is not a token'],
    ['a token that is too long', { token: 'x'.repeat(2_601) }, 422, 'This is not a token'],
    ['a token of nobody', { token: 'of-nobody' }, 422, 'The API server does not know this token.'],
  ],
  'POST /sign-out': NOTHING,
};

describe('the console', () => {
  it('has a case here for each route that it answers', async () => {
    const { routes } = await environment.start();
    const pages = EVERY_ROUTE.map(({ method, path }) => `${method} ${path}`);
    expect([...pages, ...Object.keys(OUTSIDE)].toSorted()).toEqual(routes.toSorted());
    expect(Object.keys(FORMS).toSorted()).toEqual(routes.filter((one) => one.startsWith('POST')).toSorted());
  });

  it.each(Object.entries(FORMS).filter(([, bad]) => bad === NOTHING))(
    '%s has no fields that somebody fills in',
    async (route) => {
      const who = await environment.signedIn('admin');
      const at = addressOf(route.replace('POST ', ''), 'household', 'asking');
      for (const page of ['/capsules/household', ASKING])
        for (const form of (await who.get(page)).forms.filter(({ action }) => action === at))
          expect(Object.keys(form.fields)).toEqual(['form_token']);
    },
  );
});

describe('an invalid value', () => {
  it.each(Object.entries(FORMS).flatMap(([route, bad]) => bad.map((one) => [route, ...one] as const)))(
    'is reported at its field: %s with %s',
    async (route, _what, fields, status, says) => {
      const who = await environment.signedIn('admin');
      const at = addressOf(route.replace('POST ', ''), 'household', 'asking');
      const page =
        at === '/sign-in'
          ? await who.send(await who.get(at), at, fields)
          : await forged(environment, who, at, { ...(await offered(who, at)), ...fields });
      expect([page.status, page.html]).toEqual([
        status,
        says instanceof RegExp ? expect.stringMatching(says) : expect.stringContaining(says),
      ]);
      expectDecent(page);
      if (at !== CREATE || status !== 422) return;
      const others = { name: 'papers', ...filled(PLACE) };
      for (const [name, kept] of Object.entries(others))
        if (fields[name] === kept) expect(page.html).toContain(`value="${kept}"`);
    },
  );

  /** What the page itself puts into its form, where there is one. */
  async function offered(who: Browser, action: string): Promise<Readonly<Record<string, string>>> {
    if (action.endsWith('/approve')) return {};
    const page = action.startsWith(ASKING) ? ASKING : CREDENTIALS;
    return (await who.get(page)).forms.find((form) => form.action === action)?.fields ?? {};
  }

  it('does not let the live update replace the page that reports it', async () => {
    const who = await environment.signedIn('admin');
    const page = await who.send(await who.get(CREDENTIALS), CREATE, { ...ENTERED, name: '' });
    expect([page.html.includes('live.js'), (await who.get(CREDENTIALS)).html.includes('live.js')]).toEqual([
      false,
      true,
    ]);
  });
});

describe('a stale form', () => {
  it.each(['rotate', 'select', 'delete'])(
    'of a credential set is refused at the top of the page: %s',
    async (act) => {
      const who = await environment.signedIn('admin');
      const fields = filled(whole.store.fields());
      const before = await who.get(CREDENTIALS);
      const create = { name: `stale-${act}`, ...fields };
      const seen = await who.send(before, CREATE, create);
      const form = seen.forms.findLast(({ action }) => action === `${CREDENTIALS}/${act}`);
      const stale = { ...form?.fields, generation: '7777' };
      const { 'secret-access-key-id': id = '', 'secret-secret-access-key': key = '' } = fields;
      const keys = act === 'rotate' ? { 'secret-access-key-id': id, 'secret-secret-access-key': key } : {};
      const page = await forged(environment, who, `${CREDENTIALS}/${act}`, { ...stale, ...keys });
      expect([
        page.status,
        page.text.includes('Somebody changed the sets after you opened the page'),
      ]).toEqual([409, true]);
      expectDecent(page);
    },
  );
});

describe('a session that ended while somebody filled in a form', () => {
  async function interrupted(end: (who: Browser) => void) {
    let at = new Date();
    const settings = { OBJECT_STORE_URL: whole.brokerUrl, SESSION_MINUTES: '5' };
    const { origin } = await environment.start(settings, () => at);
    const who = await environment.signedIn('admin', origin);
    const form = await who.get(CREDENTIALS);
    end(who);
    if (who.cookies.has('__Host-space-session')) at = new Date(at.getTime() + 301_000);
    return { who, page: await who.send(form, CREATE, ENTERED) };
  }

  it.each<[string, (who: Browser) => void]>([
    ['with its time', () => {}],
    ['in another window', (who) => void who.cookies.delete('__Host-space-session')],
  ])(
    'is reported, and the form is restored after the sign-in, except secrets: it ended %s',
    async (_, end) => {
      const { who, page } = await interrupted(end);
      expect([page.status, page.text.includes('Your session has ended, and nothing was changed')]).toEqual([
        422,
        true,
      ]);
      expectDecent(page);
      const kept = await unsealed(environment, who, 'kept', z.unknown());
      expect(JSON.stringify(kept)).toContain('papers-of-mia');
      expect(JSON.stringify(kept)).not.toContain(SECRET);
      const again = await who.send(page, '/sign-in', { token: environment.tokens.admin });
      expect([again.status, again.path]).toEqual([200, CREDENTIALS]);
      expectKept(again);
      expectDecent(again);
      expect(again.html).not.toContain('live.js');
      expect((await who.get(CREDENTIALS)).html).not.toContain('papers-of-mia');
    },
  );

  it('keeps nothing of a form that another site sent', async () => {
    const who = await environment.signedIn('admin');
    who.cookies.delete('__Host-space-session');
    const page = await who.post(CREATE, ENTERED, { origin: 'https://evil.org' });
    expect([page.status, who.cookies.has('__Host-space-kept')]).toEqual([403, false]);
  });
});

describe('a broker that becomes unavailable', () => {
  it('is reported at the top, and the form is restored when it is back', async () => {
    const port = Number(new URL(whole.brokerUrl).port);
    const line = await openTcpProxy({ port });
    const { origin } = await environment.start({ OBJECT_STORE_URL: `http://127.0.0.1:${line.port}` });
    const who = await environment.signedIn('admin', origin);
    const form = await who.get(CREDENTIALS);
    line.lead(await freePort());
    const page = await who.send(form, CREATE, ENTERED);
    expect([page.status, page.links.includes(CREDENTIALS)]).toEqual([503, true]);
    expect(page.text).toContain('The object-storage broker is unavailable');
    expectDecent(page);
    expect((await who.get(CREDENTIALS)).status).toBe(503);
    line.lead(port);
    const again = await who.get(CREDENTIALS);
    expect(again.status).toBe(200);
    expectKept(again);
    expectDecent(again);
    await line.close();
  });
});

const pathsOf = (capsule: string, assistant: string) =>
  EVERY_ROUTE.map(({ method, path }) => ({
    method,
    path: addressOf(path, capsule, assistant),
    hasNames: path.includes(':'),
  }));

const sent = (who: Browser, { method, path }: { readonly method: string; readonly path: string }) =>
  method === 'GET' ? who.get(path) : forged(environment, who, path, { ...ENTERED, generation: '1' });

describe('an API server that becomes unavailable', () => {
  let line: TcpProxy;
  let who: Browser;

  beforeAll(async () => {
    const { url } = environment.policyServer.server;
    line = await openTcpProxy({ port: Number(new URL(url).port) });
    const settings = { KUBERNETES_URL: `https://127.0.0.1:${line.port}`, OBJECT_STORE_URL: whole.brokerUrl };
    who = await environment.signedIn('admin', (await environment.start(settings)).origin);
    line.lead(await freePort());
  });
  afterAll(() => line?.close());

  it.each(pathsOf('household', 'asking'))('$method $path says so', async (route) => {
    const page = await sent(who, route);
    expect([page.status, page.text.includes('The API server is unavailable')]).toEqual([503, true]);
    expectDecent(page);
  });
});

describe('a name without an object', () => {
  it.each(pathsOf('nowhere', 'nobody').filter(({ hasNames }) => hasNames))(
    '$method $path answers that it was not found',
    async (route) => {
      const page = await sent(await environment.signedIn('admin'), route);
      expect([404, 503]).toContain(page.status);
      expect(page.text).toMatch(/Not found|There is no Capsule of this name/);
      expectDecent(page);
    },
  );

  it.each(pathsOf('%00', '%ff').filter(({ hasNames }) => hasNames))(
    '$method $path is no page',
    async (route) => {
      const page = await sent(await environment.signedIn('admin'), route);
      expect(page.status).toBe(404);
      expectDecent(page);
    },
  );
});
