/** Pages in states that the pages of a Space at rest do not have: refused, interrupted, away, in parts, with nothing in them. */
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { manifest } from '../../operator/testing/manifest.ts';
import { freePort } from '../../testing/ports.ts';
import { openTcpProxy, type TcpProxy } from '../../testing/tcp-proxy.ts';
import { type Page, sendForm, violationsOnEach, windowOf } from '../testing/browser-window.ts';
import { launchChromium } from '../testing/chromium.ts';
import type { Role } from '../testing/environment.ts';
import { running } from '../testing/running.ts';
import { condition, input, type Subjects, subjects } from '../testing/subjects.ts';
import { startWithIssuer, type WithIssuer } from '../testing/with-issuer.ts';
import { filled, startWithStore, type WithStore } from '../testing/with-store.ts';

const HOUSEHOLD = '/capsules/household';
const POST = `${HOUSEHOLD}/assistants/post`;
const ASKING = `${HOUSEHOLD}/assistants/asking`;
const CREDENTIALS = `${HOUSEHOLD}/credentials`;
const CREATE = `${CREDENTIALS}/create`;
/** Two parts of a table, and a bit. */
const MANY = 205;
const NAMESPACE = 'home-household-0a1b2c3d';

let whole: WithStore;
let made: Subjects;
let console_: WithIssuer;
let toApi: TcpProxy;
let toBroker: TcpProxy;
let browser: Browser;

beforeAll(async () => {
  [whole, browser] = await Promise.all([startWithStore(), launchChromium()]);
  const { environment } = whole;
  made = subjects(environment);
  toApi = await openTcpProxy({ port: portOf(environment.policyServer.server.url) });
  toBroker = await openTcpProxy({ port: portOf(whole.brokerUrl) });
  console_ = await startWithIssuer(environment, ['stewards'], {
    KUBERNETES_URL: `https://127.0.0.1:${toApi.port}`,
    OBJECT_STORE_URL: `http://127.0.0.1:${toBroker.port}`,
  });
});
afterAll(async () => {
  await browser?.close();
  await console_?.issuer.stop();
  await whole?.close();
  await Promise.all([toApi?.close(), toBroker?.close()]);
});

const portOf = (url: string) => Number(new URL(url).port);
const keys = () => ({ name: 'archive', ...filled(whole.store.fields()) });
const wide = (host: string) =>
  manifest('post', { network: { allowed_hosts: ['api.post.org', host] }, stored_inputs: { bank: input() } });

/** A window of somebody with this role. */
const windowFor = (role: Role) =>
  windowOf(browser, { environment: { ...whole.environment, origin: console_.origin } }, role, {
    bypassCSP: true,
  });

/** Another person keeps a credential set meanwhile. */
async function keepSet(name: string): Promise<void> {
  const other = await whole.environment.signedIn('admin', console_.origin);
  const page = await other.send(await other.get(CREDENTIALS), CREATE, { ...keys(), name });
  if (!page.text.includes(name)) throw new Error(page.text);
}

/** A page that follows what happens would show a change before the form is sent. */
const unfollowed = (page: Page) => page.route('**/live?*', (route) => route.abort());

/** While a server is unavailable. A page that follows what happens would be renewed once the server is back. */
async function without(page: Page, line: TcpProxy, port: number, path: string): Promise<void> {
  await unfollowed(page);
  line.lead(await freePort());
  await page.goto(path).finally(() => line.lead(port));
}

interface State {
  /** What a person reads there: the state was reached. */
  readonly says: string;
  readonly by?: Role;
  readonly reach: (page: Page) => Promise<unknown>;
}

const at = (path: string) => (page: Page) => page.goto(path);

/** An act with nothing to enter. */
const actOn = (path: string, act: string, says: string): State => ({
  says,
  async reach(page) {
    await page.goto(path);
    await sendForm(page, `${path}/${act}`);
  },
});

const EMPTY: Readonly<Record<string, State>> = {
  'Repairs of a Space with nothing in it': { says: 'Nothing needs repair.', reach: at('/') },
  'Capsules where there is none': { says: 'There are no Capsules yet.', reach: at('/capsules') },
};

/** In this order: a state may stand on what those before it have left. */
const STATES: Readonly<Record<string, State>> = {
  'a manifest that asks for more than what runs': {
    says: 'tracking.post.org',
    async reach(page) {
      await page.goto(POST);
      await page.getByText('A different manifest runs: version 1.0.0, as before').waitFor();
    },
  },
  'a value that is not taken, beside its field': {
    says: 'Nothing was stored: the value is too easy to guess',
    async reach(page) {
      await page.goto(ASKING);
      await sendForm(page, `${ASKING}/inputs/bank`, { value: 'aaaa' });
    },
  },
  'keys that the store does not take': {
    says: 'The store does not accept this key.',
    async reach(page) {
      await page.goto(CREDENTIALS);
      await sendForm(page, CREATE, { ...keys(), 'secret-secret-access-key': 'a-secret-of-nobody-at-all' });
    },
  },
  'a name that is none': {
    says: 'A name consists of lowercase letters',
    async reach(page) {
      await page.goto(CREDENTIALS);
      await sendForm(page, CREATE, { ...keys(), name: 'Not A Name' });
    },
  },
  'credential sets that somebody else has changed meanwhile': {
    says: 'Somebody changed the sets after you opened the page',
    async reach(page) {
      await unfollowed(page);
      await page.goto(CREDENTIALS);
      await keepSet('of-another');
      await sendForm(page, CREATE, keys());
    },
  },
  'a credential set, and the form that rotates it': { says: 'of-another', reach: at(CREDENTIALS) },
  'a credential set that is selected': {
    says: 'Select none',
    async reach(page) {
      await page.goto(CREDENTIALS);
      await sendForm(page, `${CREDENTIALS}/select`);
    },
  },
  'a rotation whose keys the store does not take': {
    says: 'The store does not accept this key.',
    async reach(page) {
      await page.goto(CREDENTIALS);
      await page.getByText('Rotate', { exact: true }).click();
      await sendForm(page, `${CREDENTIALS}/rotate`, {
        ...keys(),
        'secret-secret-access-key': 'a-secret-of-nobody-at-all',
      });
    },
  },
  'a Capsule whose last credential set somebody deletes': {
    says: 'There is none: objects are stored',
    async reach(page) {
      await page.goto(CREDENTIALS);
      await sendForm(page, `${CREDENTIALS}/select`);
      await sendForm(page, `${CREDENTIALS}/delete`);
    },
  },
  'a quota that is none, beside its field': {
    says: 'Nothing was changed',
    async reach(page) {
      await page.goto(HOUSEHOLD);
      await page.locator('summary').getByText('Change the quota').click();
      await sendForm(page, `${HOUSEHOLD}/quota`, { database: 'much' });
    },
  },
  ...Object.fromEntries(
    [HOUSEHOLD, ASKING].flatMap((path) => [
      [`${path} that somebody suspends`, actOn(path, 'suspend', 'is suspended')],
      [`${path} that somebody resumes`, actOn(path, 'resume', 'Stops')],
    ]),
  ),
  'a manifest that is another by the time that it is approved': {
    says: 'The manifest has changed',
    async reach(page) {
      await unfollowed(page);
      await page.goto(POST);
      await made.patch('assistants', 'post', { spec: { manifest: wide('yet.another.org') } });
      await sendForm(page, `${POST}/approve`);
    },
  },
  'a page that somebody may not see': { says: 'What the API server said', by: 'nobody', reach: at('/') },
  'credential sets that somebody may not see': {
    says: 'This requires the verb credentials',
    by: 'viewer',
    reach: at(CREDENTIALS),
  },
  'sections that somebody may not see': {
    says: 'this requires the role home-space-cluster',
    by: 'viewer',
    reach: at('/sandbox'),
  },
  'lists that somebody may not see': { says: 'left out', by: 'viewer', reach: at('/diagnostics') },
  'a table in parts': { says: `1 to 100 of ${MANY + 1} Capsules`, reach: at('/capsules') },
  'the middle of a table': { says: `101 to 200 of ${MANY + 1} Capsules`, reach: at('/capsules?part=2') },
  'a part of a name in a table of many': {
    says: 'with “of-many-1” in their name',
    reach: at('/capsules?name=of-many-1'),
  },
  'a form whose session has ended': {
    says: 'Your session has ended, and nothing was changed.',
    async reach(page) {
      await page.goto(CREDENTIALS);
      await page.context().clearCookies();
      await sendForm(page, CREATE, { ...keys(), name: 'unkept' });
    },
  },
  'somebody who has signed out': {
    says: 'Sign in with a Kubernetes token',
    async reach(page) {
      await page.goto('/');
      await sendForm(page, '/sign-out');
    },
  },
  'a token that nobody knows': {
    says: 'The API server does not know this token.',
    async reach(page) {
      // A page that follows what happens would be sent to the form, too, once its session is gone, and have another key
      // than this one in the browser. The form itself follows nothing.
      await page.goto('/sign-in');
      await page.context().clearCookies();
      await page.goto('/sign-in');
      await sendForm(page, '/sign-in', { token: 'of-nobody' });
    },
  },
  'signing in where there is an issuer': {
    says: 'Sign in with localhost',
    async reach(page) {
      await page.context().clearCookies();
      await page.goto('/');
    },
  },
  'an answer of the issuer that nobody asked for': {
    says: 'This browser did not begin to sign in',
    reach: at('/sign-in/issuer/answer?code=x&state=y'),
  },
  'an address that is not the console’s': {
    says: 'This is not the address of the console',
    reach: (page) => page.goto(`${console_.origin.replace('localhost', '127.0.0.1')}/`),
  },
  'a broker that is unavailable': {
    says: 'The credential sets cannot be shown now',
    reach: (page) => without(page, toBroker, portOf(whole.brokerUrl), CREDENTIALS),
  },
  'an API server that is unavailable': {
    says: 'The API server is unavailable',
    reach: (page) => without(page, toApi, portOf(whole.environment.policyServer.server.url), '/capsules'),
  },
};

/** What is no page of ours: files, a stream, and the way to the issuer. */
const NO_PAGES = [
  'GET /healthz',
  'GET /assets/:digest/style.css',
  'GET /assets/:digest/live.js',
  'GET /live',
  'GET /diagnostics/archive',
  'GET /sign-in/issuer',
];

/** What the windows went to, as `METHOD path`. */
const visited = new Set<string>();

/** Whether a window went to an address of this route. */
function isVisited(route: string): boolean {
  const pattern = new RegExp(`^${RegExp.escape(route).replaceAll(/(?:\\x3a|:)[a-z]+/g, '[^/]+')}$`);
  return [...visited].some((one) => pattern.test(one));
}

/** What axe finds, with all that is folded open, in both schemes and at both widths. */
async function wrongIn({ says, by = 'admin', reach }: State): Promise<readonly string[]> {
  const { context, page } = await windowFor(by);
  page.on('request', (request) => {
    if (request.isNavigationRequest()) visited.add(`${request.method()} ${new URL(request.url()).pathname}`);
  });
  try {
    await reach(page);
    // What is open already stays so: a click would fold it, and hide what the form in it says.
    const folded = page.locator('details:not([open]) > summary');
    while ((await folded.count()) > 0) await folded.first().click();
    await page
      .getByText(says)
      .first()
      .waitFor()
      .catch(async (cause: unknown) => {
        throw new Error(`the page says: ${await page.locator('body').textContent()}`, { cause });
      });
    return await violationsOnEach(page);
  } finally {
    await context.close();
  }
}

describe('in an empty Space axe finds nothing wrong with', () => {
  it.each(Object.entries(EMPTY))('%s', async (_, state) => {
    expect(await wrongIn(state)).toEqual([]);
  });
});

describe('axe finds nothing wrong with', () => {
  beforeAll(async () => {
    const { environment } = whole;
    await made.capsule('household', { approval: 'manual' }, undefined, { namespace: NAMESPACE });
    await whole.principal('household');
    await made.assistant('post', { capsule: 'household', manifest: wide('tracking.post.org') }, [
      condition('Ready', 'False', 'ApprovalMissing'),
    ]);
    const asks = manifest('asking', { stored_inputs: { bank: input() } });
    await made.assistant('asking', { capsule: 'household', manifest: asks }, [
      condition('Ready', 'False', 'InputsMissing'),
    ]);
    for (let index = 0; index < MANY; index += 1) await made.capsule(`of-many-${index}`);
    await environment.policyServer.create('/api/v1/namespaces', { metadata: { name: NAMESPACE } });
    await running(environment, NAMESPACE, manifest('post'));
    await environment.policyServer.create('/apis/rbac.authorization.k8s.io/v1/clusterrolebindings', {
      metadata: { name: 'admin-looks' },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'cluster-admin' },
      subjects: [{ kind: 'ServiceAccount', name: 'admin', namespace: 'home' }],
    });
  });

  it.each(Object.entries(STATES))('%s', async (_, state) => {
    expect(await wrongIn(state)).toEqual([]);
  });

  it('all routes of the console, each of which a state above visits', () => {
    const pages = console_.routes.filter((route) => !NO_PAGES.includes(route));
    expect(pages.filter((route) => !isVisited(route))).toEqual([]);
    expect(NO_PAGES.filter((route) => !console_.routes.includes(route))).toEqual([]);
  });
});
