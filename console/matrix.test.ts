/** Who sees and does what in the console: every route of it for each role of the chart, for nobody, and for two with a right of their own. */
import { Secret } from '@space/broker-kit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { manifest } from '../operator/testing/manifest.ts';
import { credentialBroker } from './broker/client.ts';
import { credentialRoutes } from './pages/credentials.ts';
import { ROUTES } from './routes.ts';
import type { Browser } from './testing/browser.ts';
import { ROLES } from './testing/environment.ts';
import { forged } from './testing/forged.ts';
import { condition, input, type Subjects, subjects } from './testing/subjects.ts';
import { filled, startWithStore, type WithStore } from './testing/with-store.ts';

/** `keeper` has the verb `credentials` on one Capsule and nothing else; `clerk` is an administrator who may write Secrets. */
const PEOPLE = [...ROLES, 'keeper', 'clerk'] as const;
type Person = (typeof PEOPLE)[number];

const READERS: readonly Person[] = ['viewer', 'deployer', 'capsule-admin', 'admin', 'clerk'];
const DEPLOYERS: readonly Person[] = ['deployer', 'capsule-admin', 'admin', 'clerk'];
const CAPSULE_ADMINS: readonly Person[] = ['capsule-admin', 'admin', 'clerk'];
const HOLDERS: readonly Person[] = [...CAPSULE_ADMINS, 'keeper'];

const HOUSEHOLD = '/capsules/household';
const POST = `${HOUSEHOLD}/assistants/post`;
const CREDENTIALS = `${HOUSEHOLD}/credentials`;

interface Row {
  /** The address, with names in it. */
  readonly at: string;
  /** Whom the API server lets. */
  readonly lets: readonly Person[];
  /** The page whose link or form leads there; a link that is on every page has none. */
  readonly on?: string;
  /** What a person would fill in. */
  readonly fields?: () => Readonly<Record<string, string>>;
  /** Makes it possible again. */
  readonly before?: () => Promise<void>;
}

const suspended = (plural: string, name: string, suspend: boolean) => () =>
  made.patch(plural, name, { spec: { suspend } });
const approval = (digest: string | null) =>
  made.patch('assistants', 'post', { metadata: { annotations: { 'platform.space/approved': digest } } });

/** A rotation leaves the place as it is. */
function keys(): Readonly<Record<string, string>> {
  const { 'access-key-id': id, 'secret-access-key': secret } = whole.store.fields();
  return filled({ addressing: 'path', 'access-key-id': id, 'secret-access-key': secret });
}

/** A route that has no row here fails the test. */
const TABLE: Readonly<Record<string, Row>> = {
  'GET /': { at: '/', lets: READERS },
  'GET /capsules': { at: '/capsules', lets: READERS },
  'GET /capsules/:capsule': { at: HOUSEHOLD, on: '/capsules', lets: READERS },
  'POST /capsules/:capsule/suspend': {
    at: `${HOUSEHOLD}/suspend`,
    on: HOUSEHOLD,
    lets: CAPSULE_ADMINS,
    before: suspended('capsules', 'household', false),
  },
  'POST /capsules/:capsule/resume': {
    at: `${HOUSEHOLD}/resume`,
    on: HOUSEHOLD,
    lets: CAPSULE_ADMINS,
    before: suspended('capsules', 'household', true),
  },
  'POST /capsules/:capsule/quota': {
    at: `${HOUSEHOLD}/quota`,
    on: HOUSEHOLD,
    lets: CAPSULE_ADMINS,
    fields: () => ({ database: '3Gi' }),
    before: () => made.patch('capsules', 'household', { spec: { quota: { database: '1Gi' } } }),
  },
  'GET /capsules/:capsule/assistants/:assistant': { at: POST, on: HOUSEHOLD, lets: READERS },
  'POST /capsules/:capsule/assistants/:assistant/approve': {
    at: `${POST}/approve`,
    on: POST,
    lets: CAPSULE_ADMINS,
    before: () => approval(null),
  },
  'POST /capsules/:capsule/assistants/:assistant/suspend': {
    at: `${POST}/suspend`,
    on: POST,
    lets: DEPLOYERS,
    before: suspended('assistants', 'post', false),
  },
  'POST /capsules/:capsule/assistants/:assistant/resume': {
    at: `${POST}/resume`,
    on: POST,
    lets: DEPLOYERS,
    before: suspended('assistants', 'post', true),
  },
  'POST /capsules/:capsule/assistants/:assistant/inputs/:key': {
    at: `${POST}/inputs/bank`,
    on: POST,
    lets: ['clerk'],
    fields: () => ({ value: 'S3cret-of-the-bank' }),
  },
  'GET /sandbox': { at: '/sandbox', lets: PEOPLE },
  'GET /capsules/:capsule/credentials': { at: CREDENTIALS, on: HOUSEHOLD, lets: HOLDERS },
  'POST /capsules/:capsule/credentials/create': {
    at: `${CREDENTIALS}/create`,
    on: CREDENTIALS,
    lets: HOLDERS,
    fields: () => ({ name: 'more', ...filled(whole.store.fields()) }),
    before: () => sets(false),
  },
  'POST /capsules/:capsule/credentials/rotate': {
    at: `${CREDENTIALS}/rotate`,
    on: CREDENTIALS,
    lets: HOLDERS,
    fields: keys,
    before: () => sets(true),
  },
  'POST /capsules/:capsule/credentials/select': {
    at: `${CREDENTIALS}/select`,
    on: CREDENTIALS,
    lets: HOLDERS,
    before: () => sets(true),
  },
  'POST /capsules/:capsule/credentials/delete': {
    at: `${CREDENTIALS}/delete`,
    on: CREDENTIALS,
    lets: HOLDERS,
    before: () => sets(true),
  },
};

let whole: WithStore;
let made: Subjects;
let broker: ReturnType<typeof credentialBroker>;
let principal: Secret<string>;
const as = {} as Record<Person, Browser>;

beforeAll(async () => {
  whole = await startWithStore();
  const { environment } = whole;
  made = subjects(environment);
  broker = credentialBroker({ url: whole.brokerUrl });
  await made.capsule('household', { approval: 'manual' });
  await made.capsule('workshop');
  principal = new Secret(await whole.principal('household'));
  await whole.principal('workshop');
  const wide = manifest('post', {
    network: { allowed_hosts: ['api.post.org'] },
    stored_inputs: { bank: input() },
  });
  await made.assistant('post', { capsule: 'household', manifest: wide }, [
    condition('Ready', 'False', 'ApprovalMissing'),
  ]);
  for (const role of ROLES) as[role] = await environment.signedIn(role);
  const space = { apiGroups: ['platform.space'] };
  const capsule = { ...space, resources: ['capsules'], resourceNames: ['household'] };
  as.keeper = await environment.signedInWith(
    await environment.person('keeper', [{ ...capsule, verbs: ['credentials'] }]),
  );
  as.clerk = await environment.signedInWith(
    await environment.person('clerk', [
      { ...space, resources: ['capsules', 'assistants'], verbs: ['*'] },
      { apiGroups: [''], resources: ['secrets'], verbs: ['get', 'create', 'patch'] },
    ]),
  );
});
afterAll(async () => {
  await broker?.close();
  await whole?.close();
});

const list = () => broker.call('capsule.credential.list', principal, { capsule_id: 'household' });

/** Leaves one credential set that is not selected, or none. */
async function sets(wanted: boolean): Promise<void> {
  const { inventory_generation: at, selected, sets } = await list();
  if (selected !== null) {
    const none = { capsule_id: 'household', set_id: null, expected_inventory_generation: at };
    await broker.call('capsule.credential.select', principal, none);
  }
  const page = () => as.clerk.get(CREDENTIALS);
  if (wanted && sets.length === 0)
    await as.clerk.send(await page(), `${CREDENTIALS}/create`, {
      name: 'archive',
      ...filled(whole.store.fields()),
    });
  if (!wanted && sets.length > 0) await as.clerk.send(await page(), `${CREDENTIALS}/delete`);
}

/** All that an act could change. */
async function world(): Promise<string> {
  const kinds = ['capsules', 'assistants'].map((kind) => `/apis/platform.space/v1/namespaces/home/${kind}`);
  const lists = [...kinds, '/api/v1/namespaces/home/secrets'].map(
    async (path) => (await made.get(path)).items,
  );
  const { inventory_generation, selected, sets } = await list();
  return JSON.stringify([await Promise.all(lists), inventory_generation, selected, sets]);
}

const REFUSED = 'refused by the API server';

/** Whether somebody is shown the way to a page, and what the page is. */
async function looked(who: Browser, { at, on }: Row) {
  const isShown = on === undefined || (await who.get(on)).links.includes(at);
  return { shown: isShown, came: answered(await who.get(at), 'shown') };
}

/** Whether somebody is offered an act, and what becomes of it when they send it all the same. */
async function tried(who: Browser, { at, on = '', fields = () => ({}), before = async () => {} }: Row) {
  await before();
  const isShown = (await who.get(on)).forms.some(({ action }) => action === at);
  const model = (await as.clerk.get(on)).forms.find(({ action }) => action === at);
  if (model === undefined) throw new Error(`nobody is offered ${at}`);
  const was = await world();
  const page = await forged(whole.environment, who, at, { ...model.fields, ...fields() });
  const came = answered(page, 'taken');
  const isChanged = (await world()) !== was;
  return { shown: isShown, came: isChanged === (came === 'taken') ? came : `${came}, though changed` };
}

function answered(
  { status, text }: { readonly status: number; readonly text: string },
  well: string,
): string {
  if (status === 200) return well;
  const isQuoted = /What the API server said .*(forbidden|denied)|It takes the verb credentials/.test(text);
  return status === 403 && text.includes('You may not do this') && isQuoted ? REFUSED : `${status} ${text}`;
}

/** Whether somebody may do it, and may see the page that leads there: the keeper knows the address alone. */
const isLedTo = (person: Person, { lets, on }: Row): boolean =>
  on === undefined ||
  (lets.includes(person) && Object.values(TABLE).some(({ at, lets }) => at === on && lets.includes(person)));

const routes = credentialRoutes({ broker: undefined as never, principalOf: undefined as never });

describe('the console', () => {
  it('has a row here for each of its pages and acts', () => {
    const known = [...ROUTES, ...routes].map(({ method, path }) => `${method} ${path}`);
    expect(Object.keys(TABLE).toSorted()).toEqual(known.toSorted());
  });

  it.each(Object.entries(TABLE))(
    '%s is shown to those who may, and refused to all others',
    async (key, row) => {
      const well = key.startsWith('GET') ? 'shown' : 'taken';
      const found: Partial<Record<Person, unknown>> = {};
      const wanted: Partial<Record<Person, unknown>> = {};
      // First those who may not: nothing that they send changes anything.
      for (const person of PEOPLE.toSorted(
        (a, b) => Number(row.lets.includes(a)) - Number(row.lets.includes(b)),
      )) {
        found[person] = await (well === 'shown' ? looked : tried)(as[person], row);
        const may = row.lets.includes(person);
        wanted[person] = { shown: isLedTo(person, row), came: may ? well : REFUSED };
      }
      expect(found).toEqual(wanted);
    },
  );

  it('gives whoever has the verb on one Capsule the credentials of no other', async () => {
    const page = await as.keeper.get('/capsules/workshop/credentials');
    expect([page.status, page.text.includes('It takes the verb credentials')]).toEqual([403, true]);
  });
});
