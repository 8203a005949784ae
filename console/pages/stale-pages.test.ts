import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { manifest } from '../../operator/testing/manifest.ts';
import type { Browser } from '../testing/browser.ts';
import { startEnvironment, type TestEnvironment } from '../testing/environment.ts';
import { condition, input, inputDigest, type Subjects, subjects } from '../testing/subjects.ts';

/** Forms of a page that is older than what it is about. */

const HOUSEHOLD = '/capsules/household';
const SECRETS = '/api/v1/namespaces/home/secrets';
const SESSION = '__Host-space-session';

let environment: TestEnvironment;
let made: Subjects;
let admin: Browser;

const quotaOf = async () =>
  (await made.get('/apis/platform.space/v1/namespaces/home/capsules/household')).spec.quota;

beforeAll(async () => {
  environment = await startEnvironment();
  made = subjects(environment);
  await environment.grant('admin', [
    { apiGroups: [''], resources: ['secrets'], verbs: ['get', 'create', 'patch'] },
  ]);
  admin = await environment.signedIn('admin');
  await made.capsule('household', { quota: { database: '1Gi', storage: '10Gi', assistants: 5 } });
});
afterAll(() => environment.close());

describe('a quota', () => {
  const action = `${HOUSEHOLD}/quota`;

  it('that somebody else has changed is not overwritten if only another one was entered', async () => {
    const old = await admin.get(HOUSEHOLD);
    await made.patch('capsules', 'household', { spec: { quota: { storage: '40Gi' } } });
    expect((await admin.send(old, action, { database: '2Gi' })).status).toBe(200);
    expect(await quotaOf()).toEqual({ database: '2Gi', storage: '40Gi', assistants: 5 });
  });

  it('that somebody else has changed is not set back by somebody who did not see that, but by sending it again', async () => {
    await made.patch('capsules', 'household', { spec: { quota: { database: '2Gi' } } });
    const old = await admin.get(HOUSEHOLD);
    await made.patch('capsules', 'household', { spec: { quota: { database: '8Gi' } } });
    const page = await admin.send(old, action, { database: '3Gi', assistants: '6' });
    expect(page.status).toBe(409);
    expect(page.text).toContain('Nothing was changed. Somebody else has set this to 8Gi');
    expect(page.html).toMatch(/name="database" value="3Gi"/);
    expect(await quotaOf()).toMatchObject({ database: '8Gi', assistants: 5 });
    expect((await admin.send(page, action)).status).toBe(200);
    expect(await quotaOf()).toMatchObject({ database: '3Gi', assistants: 6 });
    await made.patch('capsules', 'household', { spec: { quota: { assistants: 5 } } });
  });

  it('without a new number is not changed, and the page says so', async () => {
    const old = await admin.get(HOUSEHOLD);
    await made.patch('capsules', 'household', { spec: { quota: { database: '4Gi' } } });
    const page = await admin.send(old, action);
    expect(page.status).toBe(422);
    expect(page.text).toContain('Nothing was changed. Enter at least one new limit.');
    expect((await quotaOf()).database).toBe('4Gi');
  });

  it('that was entered after the end of the session is restored after the sign-in', async () => {
    const who = await environment.signedIn('capsule-admin');
    const old = await who.get(HOUSEHOLD);
    who.cookies.delete(SESSION);
    const interrupted = await who.send(old, action, { storage: '77Gi' });
    expect(interrupted.text).toContain('the form contains what you entered');
    const page = await who.send(interrupted, '/sign-in', { token: environment.tokens['capsule-admin'] });
    expect(page.path).toBe(HOUSEHOLD);
    expect(page.html).toMatch(/<details open[^>]*><summary>Change the quota/);
    expect((await who.send(page, action)).status).toBe(200);
    expect((await quotaOf()).storage).toBe('77Gi');
  });
});

describe('a form that is kept', () => {
  it('is given to the window that asks for it, and to no other one that updates itself', async () => {
    const [who, again] = [
      await environment.signedIn('capsule-admin'),
      await environment.signedIn('capsule-admin'),
    ];
    const old = await who.get(HOUSEHOLD);
    who.cookies.delete(SESSION);
    await who.send(old, `${HOUSEHOLD}/quota`, { storage: '88Gi' });
    who.cookies.set(SESSION, again.cookies.get(SESSION) ?? '');
    const update = { 'sec-fetch-mode': 'cors', 'sec-fetch-dest': 'empty' };
    expect((await who.once('GET', HOUSEHOLD, undefined, update)).html).not.toContain('value="88Gi"');
    expect((await who.get(HOUSEHOLD)).html).toContain('value="88Gi"');
  });
});

describe('a stored input whose Secret somebody deleted', () => {
  const at = (name: string) => `${HOUSEHOLD}/assistants/${name}`;
  const asking = (name: string, secret: string) =>
    made.assistant(
      name,
      {
        capsule: 'household',
        manifest: manifest(name, { stored_inputs: { bank: input() } }),
        storedInputs: { bank: { secretKeyRef: { name: secret, key: 'value' } } },
      },
      [condition('Ready', 'False', 'InputSecretNotFound', 'The Secret is missing.')],
    );

  it('is stored in a new one of the same name', async () => {
    await asking('bereft', 'household.bereft.bank');
    const value = 'S3cret-of-the-bank';
    const page = await admin.send(await admin.get(at('bereft')), `${at('bereft')}/inputs/bank`, { value });
    expect(page.status).toBe(200);
    expect(await made.get(`${SECRETS}/household.bereft.bank`)).toMatchObject({
      type: 'platform.space/stored-input',
      metadata: {
        labels: { 'platform.space/capsule': 'household' },
        annotations: { 'platform.space/entered-for': expect.stringContaining(inputDigest()) },
      },
      data: { value: Buffer.from(value).toString('base64') },
    });
  });

  it('is not stored in a new one of a name that somebody chose, and the page names the missing Secret', async () => {
    await asking('chosen', 'of-somebody');
    const value = 'S3cret-of-the-bank';
    const page = await admin.send(await admin.get(at('chosen')), `${at('chosen')}/inputs/bank`, { value });
    expect(page.status).toBe(409);
    expect(page.text).toContain('The Assistant names the Secret of-somebody, which does not exist.');
    const { items } = await made.get(SECRETS);
    expect(items.map(({ metadata }: { metadata: { name: string } }) => metadata.name)).not.toContain(
      'of-somebody',
    );
  });
});

describe('a form that is sent twice', () => {
  const at = (name: string) => `${HOUSEHOLD}/assistants/${name}`;

  it('approves once, and both answers show that it is approved', async () => {
    await made.assistant('doubled', { capsule: 'household' });
    const page = await admin.get(at('doubled'));
    const answers = await Promise.all(
      Array.from({ length: 6 }, () => admin.send(page, `${at('doubled')}/approve`)),
    );
    expect(answers.map(({ status, path }) => [status, path])).toEqual(
      answers.map(() => [200, at('doubled')]),
    );
  });

  it('does not put its value of a stored input over what somebody else has entered since', async () => {
    const inputs = { manifest: manifest('entered', { stored_inputs: { bank: input() } }) };
    await made.assistant('entered', { capsule: 'household', ...inputs });
    const other = await environment.signedInWith(
      await environment.person('colleague', [
        { apiGroups: ['platform.space'], resources: ['*'], verbs: ['*'] },
        { apiGroups: [''], resources: ['secrets'], verbs: ['get', 'create', 'patch'] },
      ]),
    );
    const action = `${at('entered')}/inputs/bank`;
    const old = await admin.get(at('entered'));
    const stored = async () =>
      Buffer.from((await made.get(`${SECRETS}/household.entered.bank`)).data.value, 'base64').toString();
    // Sent twice by the same person, it is the value of the second time: they may have gone back to correct it.
    await admin.send(old, action, { value: 'S3cret-with-a-typo' });
    expect((await admin.send(old, action, { value: 'S3cret-of-the-bank' })).status).toBe(200);
    expect(await stored()).toBe('S3cret-of-the-bank');
    await other.send(await other.get(at('entered')), action, { value: 'S3cret-of-today' });
    const again = await admin.send(old, action, { value: 'S3cret-of-the-bank' });
    expect(again.status).toBe(409);
    expect(again.text).toContain('Somebody has entered this input after you opened the page');
    expect(await stored()).toBe('S3cret-of-today');
    const fresh = await admin.send(await admin.get(at('entered')), action, { value: 'S3cret-of-the-bank' });
    expect(fresh.status).toBe(200);
    expect(fresh.text.match(/Stored input bank entered/g)).toHaveLength(3);
  });
});
