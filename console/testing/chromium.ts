import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Browser, type BrowserContext, chromium } from 'playwright-core';
import { installPackages } from '../../e2e/cluster/native/packages.ts';

const PLACES = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];

/** Debian's Chromium. If it is missing, apt installs it, or the test fails and says what to install; it is never skipped. */
export const launchChromium = async (more: readonly string[] = []): Promise<Browser> =>
  chromium.launch(await options(more));

/** The same with a profile that stays in a directory. */
export const launchProfile = async (directory: string, baseURL: string): Promise<BrowserContext> =>
  // Its certificate is the Space's own.
  chromium.launchPersistentContext(directory, {
    ...(await options()),
    baseURL,
    ignoreHTTPSErrors: true,
  });

const options = async (more: readonly string[] = []) => ({
  executablePath: find() ?? (await install()),
  // Chromium has no sandbox of its own for root; what it is shown here are our own pages.
  args: [...(process.getuid?.() === 0 ? ['--no-sandbox'] : []), ...more],
});

const find = () => PLACES.find((place) => existsSync(place));

async function install(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'space-chromium-'));
  try {
    await installPackages(['chromium', 'fonts-dejavu-core'], join(directory, 'apt.log'));
    const found = find();
    if (found === undefined) throw new Error('apt installed chromium, and it is at none of the usual places');
    return found;
  } finally {
    await rm(directory, { recursive: true });
  }
}
