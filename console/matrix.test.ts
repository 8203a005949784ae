/** What each role sees and does in the console: every route, for each role of the chart, for a person without a role, and without a sign-in. */
import { Secret } from '@space/broker-kit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { credentialBroker } from './broker/client.ts';
import type { Browser, Shown } from './testing/browser.ts';
import { forged } from './testing/forged.ts';
import { OUTSIDE } from './testing/outside.ts';
import {
  CAPSULE_ADMINS,
  DEPLOYERS,
  type Gathering,
  gather,
  PEOPLE,
  type Person,
  READERS,
  SIGNED_IN,
} from './testing/people.ts';
import { filled } from './testing/with-store.ts';

const HOLDERS: readonly Person[] = [...CAPSULE_ADMINS, 'keeper'];

const HOUSEHOLD = '/capsules/household';
const POST = `${HOUSEHOLD}/assistants/post`;
const CREDENTIALS = `${HOUSEHOLD}/credentials`;

interface Row {
  /** The address, with names in it. */
  readonly at: string;
  /** The people whom the API server permits this. */
  readonly lets: readonly Person[];
  /** The page whose link or form leads there; what the sidebar leads to has none. */
  readonly on?: string;
  /** What a person would fill in. */
  readonly fields?: () => Readonly<Record<string, string>>;
  /** Restores the state in which it is possible. */
  readonly before?: () => Promise<void>;
}

const suspended = (plural: string, name: string, suspend: boolean) => () =>
  all.made.patch(plural, name, { spec: { suspend } });
const approval = (digest: string | null) =>
  all.made.patch('assistants', 'post', { metadata: { annotations: { 'platform.space/approved': digest } } });

/** A rotation leaves the place as it is. */
function keys(): Readonly<Record<string, string>> {
  const { 'access-key-id': id, 'secret-access-key': secret } = all.whole.store.fields();
  return filled({ addressing: 'path', 'access-key-id': id, 'secret-access-key': secret });
}

/** Pages, and acts on them. A route of the console that has no row here or below fails the test. */
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
    before: () => all.made.patch('capsules', 'household', { spec: { quota: { database: '1Gi' } } }),
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
  'GET /sandbox': { at: '/sandbox', lets: SIGNED_IN },
  'GET /diagnostics': { at: '/diagnostics', lets: SIGNED_IN },
  'GET /diagnostics/archive': { at: '/diagnostics/archive', on: '/diagnostics', lets: SIGNED_IN },
  'GET /capsules/:capsule/credentials': { at: CREDENTIALS, on: HOUSEHOLD, lets: HOLDERS },
  'POST /capsules/:capsule/credentials/create': {
    at: `${CREDENTIALS}/create`,
    on: CREDENTIALS,
    lets: HOLDERS,
    fields: () => ({ name: 'more', ...filled(all.whole.store.fields()) }),
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

let all: Gathering;
let broker: ReturnType<typeof credentialBroker>;

beforeAll(async () => {
  all = await gather();
  broker = credentialBroker({ url: all.whole.brokerUrl });
});
afterAll(async () => {
  await all?.close();
});

const principal = () => new Secret(all.principal);
const list = () => broker.call('capsule.credential.list', principal(), { capsule_id: 'household' });

/** Leaves one credential set that is not selected, or none. */
async function sets(wanted: boolean): Promise<void> {
  const { clerk } = all.as;
  const { inventory_generation: at, selected, sets } = await list();
  if (selected !== null) {
    const none = { capsule_id: 'household', set_id: null, expected_inventory_generation: at };
    await broker.call('capsule.credential.select', principal(), none);
  }
  const page = () => clerk.get(CREDENTIALS);
  if (wanted && sets.length === 0)
    await clerk.send(await page(), `${CREDENTIALS}/create`, {
      name: 'archive',
      ...filled(all.whole.store.fields()),
    });
  if (!wanted && sets.length > 0) await clerk.send(await page(), `${CREDENTIALS}/delete`);
}

/** All that an act could change. */
async function world(): Promise<string> {
  const kinds = ['capsules', 'assistants'].map((kind) => `/apis/platform.space/v1/namespaces/home/${kind}`);
  const lists = [...kinds, '/api/v1/namespaces/home/secrets'].map(
    async (path) => (await all.made.get(path)).items,
  );
  const { inventory_generation, selected, sets } = await list();
  return JSON.stringify([await Promise.all(lists), inventory_generation, selected, sets]);
}

const REFUSED = 'refused by the API server';
const UNKNOWN = 'asked to sign in';

/** Whether somebody is shown the way to a page, and what the page is. */
async function looked(who: Browser, { at, on = '/sandbox' }: Row) {
  const isShown = (await who.get(on)).links.includes(at);
  return { shown: isShown, came: answered(await who.get(at), 'shown') };
}

/** Whether somebody is offered an act, and what becomes of it when they send it all the same. */
async function tried(who: Browser, { at, on = '', fields = () => ({}), before = async () => {} }: Row) {
  await before();
  const isShown = (await who.get(on)).forms.some(({ action }) => action === at);
  const model = (await all.as.clerk.get(on)).forms.find(({ action }) => action === at);
  if (model === undefined) throw new Error(`nobody is offered ${at}`);
  const was = await world();
  const sent = { ...model.fields, ...fields() };
  const page =
    who === all.as.stranger ? await who.post(at, sent) : await forged(all.whole.environment, who, at, sent);
  const came = answered(page, 'taken');
  const isChanged = (await world()) !== was;
  return { shown: isShown, came: isChanged === (came === 'taken') ? came : `${came}, though changed` };
}

function answered({ status, text, path }: Pick<Shown, 'status' | 'text' | 'path'>, well: string): string {
  if (path.startsWith('/sign-in?to=') || text.includes('Your session has ended')) return UNKNOWN;
  if (status === 200) return well;
  const isQuoted = /What the API server said .*(forbidden|denied)|This requires the verb credentials/.test(
    text,
  );
  return status === 403 && text.includes('You may not do this') && isQuoted ? REFUSED : `${status} ${text}`;
}

/** Whether a person may see the page with the form, and may send it; the keeper may only send it. */
const isLedTo = (person: Person, { lets, on }: Row): boolean =>
  on === undefined
    ? person !== 'stranger'
    : lets.includes(person) &&
      Object.values(TABLE).some(({ at, lets }) => at === on && lets.includes(person));

describe('the console', () => {
  it('has a row here for each route that it answers', () => {
    const rows = [...Object.keys(TABLE), ...Object.keys(OUTSIDE)];
    expect(rows.toSorted()).toEqual(all.routes.toSorted());
  });

  it.each(Object.entries(TABLE))(
    '%s is shown to people with the right, and refused to all others',
    async (key, row) => {
      const well = key.startsWith('GET') ? 'shown' : 'taken';
      const found: Partial<Record<Person, unknown>> = {};
      const wanted: Partial<Record<Person, unknown>> = {};
      // First those who may not: nothing that they send changes anything.
      for (const person of PEOPLE.toSorted(
        (a, b) => Number(row.lets.includes(a)) - Number(row.lets.includes(b)),
      )) {
        found[person] = await (well === 'shown' ? looked : tried)(all.as[person], row);
        const may = row.lets.includes(person);
        const came = may ? well : person === 'stranger' ? UNKNOWN : REFUSED;
        wanted[person] = { shown: isLedTo(person, row), came };
      }
      expect(found).toEqual(wanted);
    },
  );

  it('gives a person with the verb on one Capsule no credentials of another', async () => {
    const page = await all.as.keeper.get('/capsules/workshop/credentials');
    expect([page.status, page.text.includes('This requires the verb credentials')]).toEqual([403, true]);
  });

  it.each(Object.entries(OUTSIDE))(
    '%s is the same for everybody, except for what they may read',
    async (_key, row) => {
      const found: Partial<Record<Person, unknown>> = {};
      for (const person of PEOPLE) found[person] = await row.ask(all, person);
      expect(found).toEqual(Object.fromEntries(PEOPLE.map((person) => [person, row.wanted(person, all)])));
    },
  );
});
