import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { tabTo, violations, windowOf } from '../testing/browser-window.ts';
import { launchChromium } from '../testing/chromium.ts';
import { type Scene, setScene } from '../testing/scene.ts';

let scene: Scene;
let browser: Browser;

beforeAll(async () => {
  [scene, browser] = await Promise.all([setScene(), launchChromium()]);
});
afterAll(async () => {
  await browser?.close();
  await scene?.close();
});

const isWide = (page: Page) =>
  page.evaluate('document.documentElement.scrollWidth > document.documentElement.clientWidth');

const bypassing = { bypassCSP: true };

describe.each([
  ['light', 1280],
  ['dark', 1280],
  ['light', 390],
  ['dark', 390],
] as const)('every page, %s, %i px wide', (scheme, width) => {
  it('passes axe, and does not overflow to the side', async () => {
    const { context, page } = await windowOf(browser, scene, 'admin', { scheme, width, ...bypassing });
    const stranger = await browser.newContext({
      ...bypassing,
      baseURL: scene.environment.origin,
      colorScheme: scheme,
    });
    const found: Record<string, unknown> = {};
    for (const [name, path] of Object.entries(scene.pages)) {
      await page.goto(path);
      for (const summary of await page.locator('summary').all()) await summary.click();
      const wrong = await violations(page);
      if (wrong.length > 0) found[name] = wrong;
      if (await isWide(page)) found[`${name} is too wide`] = true;
    }
    const door = await stranger.newPage();
    await door.goto('/sign-in');
    await door.getByLabel('Token').fill('nobody-knows-this-token');
    await door.getByRole('button', { name: 'Sign in' }).click();
    await door.getByRole('alert').waitFor();
    const wrong = await violations(door);
    if (wrong.length > 0) found['sign-in'] = wrong;
    await Promise.all([context.close(), stranger.close()]);
    expect(found).toEqual({});
  });
});

describe('without script', () => {
  it('a person enters a stored input, approves a manifest and stores a credential set', async () => {
    const { context, page } = await windowOf(browser, scene, 'admin', { script: false });
    await page.getByRole('link', { name: 'Enter the stored input' }).click();
    await page.getByLabel('Value', { exact: true }).fill('S3cret-of-the-bank');
    await page.getByRole('button', { name: 'Store' }).click();
    await page.locator('dd').getByText('household.asking.bank').waitFor();

    await page.getByRole('link', { name: 'Repairs' }).click();
    await page.getByRole('link', { name: 'Review what it may do, and approve' }).click();
    await page.getByRole('button', { name: 'Approve exactly this manifest' }).click();
    await page.getByText('Approved', { exact: true }).first().waitFor();

    await page.getByRole('link', { name: 'household' }).click();
    await page.getByRole('link', { name: 'Its own keys for an S3 store' }).click();
    const { 'access-key-id': id, 'secret-access-key': secret, ...fields } = scene.store.fields();
    await page.getByLabel('Name').fill('archive');
    await page.getByLabel('Endpoint').fill(fields.endpoint);
    await page.getByLabel('Region').fill(fields.region);
    await page.getByLabel('Bucket').fill(fields.bucket);
    await page.getByLabel('Access key ID').last().fill(id);
    await page.getByLabel('Secret access key').last().fill(secret);
    await page.getByRole('button', { name: 'Verify and save' }).click();
    await page.getByRole('cell', { name: 'archive' }).waitFor();
    expect(await page.content()).not.toContain(secret);
    await context.close();
  });
});

describe('by keyboard alone', () => {
  it('a person skips the sidebar, replaces a stored input, and selects and deletes a credential set', async () => {
    const { context, page } = await windowOf(browser, scene, 'admin');
    await page.keyboard.press('Tab');
    expect(await page.locator(':focus').textContent()).toBe('Skip to the content');
    await page.keyboard.press('Enter');
    await tabTo(page, 'Capsule workshop');

    await page.goto('/capsules/household/assistants/asking');
    await tabTo(page, 'New value');
    await page.keyboard.type('An0ther-of-the-bank');
    // The value is stored before the page comes that the form leads to.
    const next = page.waitForEvent('load');
    await page.keyboard.press('Enter');
    await next;
    const secret = '/api/v1/namespaces/home/secrets/household.asking.bank';
    await expect
      .poll(async () => (await scene.made.get(secret)).data, { timeout: 240_000 })
      .toEqual({ value: Buffer.from('An0ther-of-the-bank').toString('base64') });

    await page.goto('/capsules/household/credentials');
    await tabTo(page, 'Select');
    await page.keyboard.press('Enter');
    await page.getByText('selected', { exact: true }).waitFor();
    await tabTo(page, 'Select none');
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: 'Delete' }).waitFor();
    await tabTo(page, 'Delete');
    await page.keyboard.press('Enter');
    await page.getByText('There is none: objects are stored').waitFor();
    await context.close();
  });
});

describe('a manifest of an attacker', () => {
  it('runs nothing, loads nothing, and makes no element in a real browser', async () => {
    const { context, page } = await windowOf(browser, scene, 'admin');
    const [asked, said]: [string[], string[]] = [[], []];
    page.on('request', (request) => asked.push(new URL(request.url()).origin));
    page.on('dialog', (dialog) => said.push(dialog.message()));
    page.on('pageerror', (error) => said.push(error.message));
    for (const path of ['/', '/capsules/household', scene.pages['assistant-hostile'] ?? '']) {
      await page.goto(path);
      for (const summary of await page.locator('summary').all()) await summary.click();
      expect(await page.locator('main script, main img').count(), path).toBe(0);
      expect(await page.content()).not.toContain('\u202e');
    }
    await page.getByText('⟨U+202E⟩').first().waitFor();
    await page.getByText('has letters that look like others: U+0430').first().waitFor();
    expect([...new Set(asked)]).toEqual([scene.environment.origin]);
    expect(said).toEqual([]);
    await context.close();
  });
});
