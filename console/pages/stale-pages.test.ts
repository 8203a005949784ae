import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Browser } from '../testing/browser.ts';
import { startEnvironment, type TestEnvironment } from '../testing/environment.ts';
import { type Subjects, subjects } from '../testing/subjects.ts';

/** Forms of a page that is older than what it is about. */

const HOUSEHOLD = '/capsules/household';

let environment: TestEnvironment;
let made: Subjects;
let admin: Browser;

const quotaOf = async () =>
  (await made.get('/apis/platform.space/v1/namespaces/home/capsules/household')).spec.quota;

beforeAll(async () => {
  environment = await startEnvironment();
  made = subjects(environment);
  admin = await environment.signedIn('admin');
  await made.capsule('household', { quota: { database: '1Gi', storage: '10Gi', assistants: 5 } });
});
afterAll(() => environment.close());

describe('a quota', () => {
  const action = `${HOUSEHOLD}/quota`;

  it('that somebody else changed meanwhile stays as they left it, where only another one was entered', async () => {
    const old = await admin.get(HOUSEHOLD);
    await made.patch('capsules', 'household', { spec: { quota: { storage: '40Gi' } } });
    expect((await admin.send(old, action, { database: '2Gi' })).status).toBe(200);
    expect(await quotaOf()).toEqual({ database: '2Gi', storage: '40Gi', assistants: 5 });
  });

  it('that nobody entered another number for is not changed, and the page says so', async () => {
    const old = await admin.get(HOUSEHOLD);
    await made.patch('capsules', 'household', { spec: { quota: { database: '4Gi' } } });
    const page = await admin.send(old, action);
    expect(page.status).toBe(422);
    expect(page.text).toContain('Nothing was changed. Enter how much it may have.');
    expect((await quotaOf()).database).toBe('4Gi');
  });
});
