/** Forms that cannot be taken as they are: what the page says, and that only secrets have to be entered again. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import * as z from 'zod';
import { manifest } from '../operator/testing/manifest.ts';
import { type Line, openLine } from '../testing/line.ts';
import { freePort } from '../testing/ports.ts';
import { credentialRoutes } from './pages/credentials.ts';
import { ROUTES } from './routes.ts';
import type { Browser, Shown } from './testing/browser.ts';
import type { TestEnvironment } from './testing/environment.ts';
import { forged, unsealed } from './testing/forged.ts';
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

/** Nothing of a program, and nothing that was to be secret. */
function expectDecent({ html, headers }: Shown): void {
  expect(html).not.toMatch(/\bat .*\.ts:\d|node_modules|Error:|undefined|\[object/);
  expect(html + JSON.stringify(headers)).not.toContain(SECRET);
}

function expectKept({ html }: Shown): void {
  for (const value of ['papers', ...Object.values(PLACE)]) expect(html).toContain(`value="${value}"`);
  expect(html).toMatch(/<option value="path" selected>/);
}

describe('a value out of bounds', () => {
  it.each([
    ['nothing', '', 'cannot stand in a request'],
    ['too short', 'aaaa', 'is too easy to guess'],
    ['too long', 'a1B2'.repeat(1_100), 'cannot stand in a request'],
    ['of two lines', `${SECRET}\nx: y`, 'cannot stand in a request'],
    ['not of ASCII', `${SECRET}-ü`, 'cannot stand in a request'],
  ])('of a stored input is told beside it: %s', async (_, value, says) => {
    const who = await environment.signedIn('admin');
    const page = await who.send(await who.get(ASKING), `${ASKING}/inputs/bank`, { value });
    expect(page.status).toBe(422);
    expect(page.html).toMatch(new RegExp(`id="input-bank-problem" role="alert">[^<]*${says}`));
    expectDecent(page);
  });

  it.each([
    ['name', 'Papers of Mia', 'lowercase letters'],
    ['name', 'a'.repeat(65), 'lowercase letters'],
    ['field-endpoint', 'http://169.254.169.254/', 'not in its format'],
    ['field-region', 'r'.repeat(33), 'not in its format'],
    ['field-bucket', 'x', 'not in its format'],
    ['field-addressing', 'sideways', 'not in its format'],
    ['secret-access-key-id', '', 'not in its format'],
  ])('of a credential set is told beside it, with all else kept: %s', async (field, value, says) => {
    const who = await environment.signedIn('admin');
    const page = await who.send(await who.get(CREDENTIALS), CREATE, { ...ENTERED, [field]: value });
    expect(page.status).toBe(422);
    const id = `new-${field.replace(/^(?:field|secret)-/, '')}`;
    expect(page.html).toMatch(new RegExp(`id="${id}-problem">[^<]*${says}`));
    expectDecent(page);
    const others = Object.entries({ name: 'papers', ...filled(PLACE) }).filter(([name]) => name !== field);
    for (const [, kept] of others) expect(page.html).toContain(`value="${kept}"`);
  });

  it('leaves the page as it is while somebody reads it', async () => {
    const who = await environment.signedIn('admin');
    const page = await who.send(await who.get(CREDENTIALS), CREATE, { ...ENTERED, name: '' });
    expect([page.html.includes('live.js'), (await who.get(CREDENTIALS)).html.includes('live.js')]).toEqual([
      false,
      true,
    ]);
  });
});

describe('a stale form', () => {
  it.each(['rotate', 'select', 'delete'])('of a set is refused on top: %s', async (act) => {
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
    expect([page.status, page.text.includes('Somebody changed the sets since you looked')]).toEqual([
      409,
      true,
    ]);
    expectDecent(page);
  });

  it('without its generation, or with another’s number, is refused', async () => {
    const who = await environment.signedIn('admin');
    for (const generation of ['', '-1', '1e3', 'x', '9'.repeat(40)]) {
      const page = await forged(environment, who, CREATE, { ...ENTERED, generation });
      expect(page.status, generation).toBe(400);
      expectDecent(page);
    }
  });
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
  ])('is told, and all but secrets is there after signing in: it ended %s', async (_, end) => {
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
  });

  it('keeps nothing of a form that another site sent', async () => {
    const who = await environment.signedIn('admin');
    who.cookies.delete('__Host-space-session');
    const page = await who.post(CREATE, ENTERED, { origin: 'https://evil.org' });
    expect([page.status, who.cookies.has('__Host-space-kept')]).toEqual([403, false]);
  });
});

describe('a broker that goes away', () => {
  it('is told on top, and what was entered is there when it is back', async () => {
    const port = Number(new URL(whole.brokerUrl).port);
    const line = await openLine({ port });
    const { origin } = await environment.start({ OBJECT_STORE_URL: `http://127.0.0.1:${line.port}` });
    const who = await environment.signedIn('admin', origin);
    const form = await who.get(CREDENTIALS);
    line.lead(await freePort());
    const page = await who.send(form, CREATE, ENTERED);
    expect([page.status, page.links.includes(CREDENTIALS)]).toEqual([503, true]);
    expect(page.text).toContain('The object-storage broker is away');
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

const known = credentialRoutes({ broker: undefined as never, principalOf: undefined as never });
const pathsOf = (capsule: string, assistant: string) =>
  [...ROUTES, ...known].map(({ method, path }) => ({
    method,
    path: path.replace(':capsule', capsule).replace(':assistant', assistant).replace(':key', 'bank'),
    hasNames: path.includes(':'),
  }));

const sent = (who: Browser, { method, path }: { readonly method: string; readonly path: string }) =>
  method === 'GET' ? who.get(path) : forged(environment, who, path, { ...ENTERED, generation: '1' });

describe('an API server that goes away', () => {
  let line: Line;
  let who: Browser;

  beforeAll(async () => {
    const { url } = environment.judged.server;
    line = await openLine({ port: Number(new URL(url).port) });
    const settings = { KUBERNETES_URL: `https://127.0.0.1:${line.port}`, OBJECT_STORE_URL: whole.brokerUrl };
    who = await environment.signedIn('admin', (await environment.start(settings)).origin);
    line.lead(await freePort());
  });
  afterAll(() => line?.close());

  it.each(pathsOf('household', 'asking'))('$method $path says so', async (route) => {
    const page = await sent(who, route);
    expect([page.status, page.text.includes('The API server is away')]).toEqual([503, true]);
    expectDecent(page);
  });
});

describe('a name that nothing has', () => {
  it.each(pathsOf('nowhere', 'nobody').filter(({ hasNames }) => hasNames))(
    '$method $path says that there is no such thing',
    async (route) => {
      const page = await sent(await environment.signedIn('admin'), route);
      expect([404, 503]).toContain(page.status);
      expect(page.text).toMatch(/There is no such thing|There is no Capsule of this name/);
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
