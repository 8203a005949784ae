import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { manifest } from '../../operator/testing/manifest.ts';
import { freePort } from '../../testing/ports.ts';
import { openTcpProxy } from '../../testing/tcp-proxy.ts';
import { signedIn, windowOf } from '../testing/browser-window.ts';
import { launchChromium } from '../testing/chromium.ts';
import { startEnvironment, type TestEnvironment } from '../testing/environment.ts';
import { condition, input, type Subjects, subjects } from '../testing/subjects.ts';

let environment: TestEnvironment;
let browser: Browser;
let made: Subjects;
const ASKING = '/capsules/household/assistants/asking';

beforeAll(async () => {
  [environment, browser] = await Promise.all([startEnvironment(), launchChromium()]);
  made = subjects(environment);
  await made.capsule('household');
  const asks = manifest('asking', { stored_inputs: { bank: input() } });
  await made.assistant('asking', { capsule: 'household', manifest: asks }, [
    condition('Ready', 'False', 'Waiting', 'It waits for its input.'),
  ]);
  await environment.grant('admin', [
    { apiGroups: [''], resources: ['secrets'], verbs: ['get', 'create', 'patch'] },
  ]);
});
afterAll(async () => {
  await browser?.close();
  await environment?.close();
});

const tell = (message: string) =>
  environment.policyServer.server.client.call({
    method: 'PATCH',
    path: '/apis/platform.space/v1/namespaces/home/assistants/asking/status',
    contentType: 'application/merge-patch+json',
    body: { status: { conditions: [condition('Ready', 'False', 'Waiting', message)] } },
  });

describe('an open page', () => {
  it('shows what changed, keeps opened details and the focus, and is not reloaded', async () => {
    const { context, page } = await windowOf(browser, { environment }, 'admin');
    await page.goto(ASKING);
    await page.evaluate('globalThis.isTheSame = true');
    const folded = page.locator('main details').last();
    await folded.locator('summary').first().click();
    await tell('Something else is the matter.');
    await page.getByText('Something else is the matter.').first().waitFor();
    expect(await page.evaluate('globalThis.isTheSame')).toBe(true);
    expect(await folded.getAttribute('open')).not.toBeNull();
    expect(await page.evaluate('document.activeElement.tagName')).toBe('SUMMARY');
    await context.close();
  });

  it('keeps the focus, and what is open, at the same object if another one goes or comes before it', async () => {
    const wrong = condition('Ready', 'False', 'InputsMissing', 'It waits.');
    for (const name of ['a-first', 'b-second'])
      await made.assistant(name, { capsule: 'household', manifest: manifest(name) }, [wrong]);
    const { context, page } = await windowOf(browser, { environment }, 'admin');
    await page.goto('/');
    const link = page.getByRole('link', { name: 'Assistant b-second' });
    await link.focus();
    await environment.policyServer.server.client.call({
      method: 'DELETE',
      path: '/apis/platform.space/v1/namespaces/home/assistants/a-first',
    });
    await page.getByRole('link', { name: 'Assistant a-first' }).waitFor({ state: 'detached' });
    expect(await page.evaluate('document.activeElement.textContent')).toBe('Assistant b-second');

    await page.goto(ASKING);
    const manifestOf = page.locator('details', { hasText: 'The whole manifest' });
    await manifestOf.locator('summary').click();
    await environment.policyServer.server.client.call({
      method: 'PATCH',
      path: '/apis/platform.space/v1/namespaces/home/assistants/asking/status',
      contentType: 'application/merge-patch+json',
      body: { status: { conditions: [condition('Accepted', 'True', 'Valid', 'It is valid.')] } },
    });
    const folded = page.locator('details', { hasText: '1 condition is as expected' });
    await folded.waitFor();
    expect(await folded.getAttribute('open')).toBeNull();
    expect(await manifestOf.getAttribute('open')).not.toBeNull();
    await context.close();
  });

  it('does not update while somebody is typing', async () => {
    const { context, page } = await windowOf(browser, { environment }, 'admin');
    await page.goto(ASKING);
    const field = page.locator('main input:not([type=hidden])').first();
    await field.fill('half a val');
    const other = await context.newPage();
    await other.goto(ASKING);
    for (const message of ['It came while somebody typed.', 'And once more.']) {
      await tell(message);
      await other.getByText(message).first().waitFor();
    }
    expect(await page.getByText('It came while somebody typed.').count()).toBe(0);
    expect(await field.inputValue()).toBe('half a val');
    await field.fill('');
    await page.locator('h1').click();
    await page.getByText('And once more.').first().waitFor();
    await context.close();
  });

  it('updates again once an unavailable API server is back', async () => {
    const { url } = environment.policyServer.server;
    const port = Number(new URL(url).port);
    const line = await openTcpProxy({ port });
    const KUBERNETES_URL = url.replace(`:${port}`, `:${line.port}`);
    const { origin, stop } = await environment.start({ KUBERNETES_URL });
    const { context, page } = await signedIn(browser, { origin, token: environment.tokens.admin });
    const refused = page.waitForResponse((one) => one.url().includes('/live?') && one.status() === 503);
    await page.goto(ASKING);
    await tell('Before it was away.');
    await page.getByText('Before it was away.').first().waitFor();
    line.lead(await freePort());
    await refused;
    line.lead(port);
    await tell('After it was away.');
    await page.getByText('After it was away.').first().waitFor();
    await context.close();
    await stop();
    await line.close();
  });
});
