/** `npx node console/testing/screenshots.ts FOLDER [PAGE…]`: every page at two widths, in both schemes, to be looked at. */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { windowOf } from './browser-window.ts';
import { launchChromium } from './chromium.ts';
import { setScene } from './scene.ts';

const [folder, ...wanted] = process.argv.slice(2);
if (folder === undefined) throw new Error('usage: npx node console/testing/screenshots.ts FOLDER [PAGE…]');
await mkdir(folder, { recursive: true });
const scene = await setScene();
const browser = await launchChromium();
try {
  for (const width of [1280, 390])
    for (const scheme of ['light', 'dark'] as const) {
      const { context, page } = await windowOf(browser, scene, 'admin', { width, scheme });
      for (const [name, path] of Object.entries(scene.pages)) {
        if (wanted.length > 0 && !wanted.includes(name)) continue;
        await page.goto(path);
        const file = join(folder, `${name}-${width}-${scheme}.png`);
        await page.screenshot({ path: file, fullPage: true });
      }
      await context.close();
      const stranger = await browser.newContext({
        baseURL: scene.environment.origin,
        viewport: { width, height: 800 },
        colorScheme: scheme,
      });
      const door = await stranger.newPage();
      await door.goto('/sign-in');
      await door.screenshot({ path: join(folder, `sign-in-${width}-${scheme}.png`) });
      await stranger.close();
    }
} finally {
  await browser.close();
  await scene.close();
}
