/** `npx node console/testing/screenshots.ts FOLDER [PAGE…]` takes pictures of every page at two widths, in both schemes. */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { windowOf } from './browser-window.ts';
import { launchChromium } from './chromium.ts';
import { type Scene, setScene } from './scene.ts';

const [folder, ...wanted] = process.argv.slice(2);
if (folder === undefined) throw new Error('usage: npx node console/testing/screenshots.ts FOLDER [PAGE…]');
await mkdir(folder, { recursive: true });
const isWanted = (name: string) => wanted.length === 0 || wanted.includes(name);
/** The pages in README are without attacks. */
const scene = await setScene({ isHostile: wanted.includes('assistant-hostile') });
const browser = await launchChromium();
try {
  await keepSet(scene);
  for (const width of [1280, 390])
    for (const scheme of ['light', 'dark'] as const) {
      const { context, page } = await windowOf(browser, scene, 'admin', { width, scheme });
      const take = (name: string) => shoot(page, width, join(folder, `${name}-${width}-${scheme}.png`));
      for (const [name, path] of Object.entries(scene.pages)) {
        if (!isWanted(name)) continue;
        await page.goto(path);
        await take(name);
      }
      if (isWanted('credentials-refused')) {
        await page.goto(scene.pages['credentials'] ?? '');
        await enter(page, scene, { name: 'photographs', secret: 'not-the-secret-of-this-access-key' });
        await page.locator('.field .problem').waitFor();
        await take('credentials-refused');
      }
      await context.close();
      const stranger = await browser.newContext({
        baseURL: scene.environment.origin,
        viewport: { width, height: 800 },
        colorScheme: scheme,
      });
      const door = await stranger.newPage();
      await door.goto('/sign-in');
      if (isWanted('sign-in'))
        await door.screenshot({ path: join(folder, `sign-in-${width}-${scheme}.png`) });
      await stranger.close();
    }
} finally {
  await browser.close();
  await scene.close();
}

/** The whole page in one window of its height: in a picture of a longer one the sidebar would end in its middle. */
async function shoot(page: Page, width: number, path: string): Promise<void> {
  await page.setViewportSize({ width, height: 800 });
  const height = Number(await page.evaluate('document.documentElement.scrollHeight'));
  await page.setViewportSize({ width, height });
  await page.screenshot({ path });
}

/** A credential set that is in use. */
async function keepSet(scene: Scene): Promise<void> {
  const { context, page } = await windowOf(browser, scene, 'admin');
  await page.goto(scene.pages['credentials'] ?? '');
  await enter(page, scene, { name: 'archive' });
  await page.getByRole('button', { name: 'Select' }).click();
  await page.getByText('selected', { exact: true }).waitFor();
  await context.close();
}

async function enter(
  page: Page,
  { store }: Scene,
  { name, secret }: { readonly name: string; readonly secret?: string },
): Promise<void> {
  const fields = store.fields();
  await page.getByLabel('Name').fill(name);
  await page.getByLabel('Endpoint').fill(fields.endpoint);
  await page.getByLabel('Region').fill(fields.region);
  await page.getByLabel('Bucket').fill(fields.bucket);
  await page.getByLabel('Access key ID').last().fill(fields['access-key-id']);
  await page
    .getByLabel('Secret access key')
    .last()
    .fill(secret ?? fields['secret-access-key']);
  await page.getByRole('button', { name: 'Verify and save' }).click();
}
