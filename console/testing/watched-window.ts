import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { BrowserContext, Page } from 'playwright-core';
import { sendForm } from './browser-window.ts';
import type { Canaries, Lookout } from './canaries.ts';
import { launchProfile } from './chromium.ts';
import { STORES } from './quoting-api.ts';
import { FIELDS, type Replies } from './taken-over.ts';
import { ASSISTANT, CREDENTIALS, type WatchedProgram } from './watched-program.ts';

/** Puts the control where a search that finds anything has to find it. */
const PUT = async (control: string): Promise<void> => {
  const { localStorage, sessionStorage, caches, indexedDB } = globalThis as never as Record<string, never> & {
    localStorage: Map<string, string> & { setItem(key: string, value: string): void };
    sessionStorage: { setItem(key: string, value: string): void };
    caches: { open(name: string): Promise<{ put(url: string, answer: Response): Promise<void> }> };
    indexedDB: { open(name: string): { onsuccess: () => void } };
  };
  localStorage.setItem('control', control);
  sessionStorage.setItem('control', control);
  await (await caches.open('control')).put('/control', new Response(control));
  await new Promise<void>((resolve) => {
    indexedDB.open(control).onsuccess = () => resolve();
  });
};

/** All that scripts of the page could read of what its browser keeps, and what its fields hold. */
const KEPT = `(async () => {
  const cached = [];
  for (const name of await caches.keys()) {
    const cache = await caches.open(name);
    for (const asked of await cache.keys()) cached.push(asked.url, await (await cache.match(asked)).text());
  }
  return JSON.stringify([{ ...localStorage }, { ...sessionStorage }, await indexedDB.databases(), cached,
    document.cookie, window.name, history.state, [...document.querySelectorAll('input')].map((one) => one.value)]);
})()`;

async function lookAround(context: BrowserContext, page: Page, lookout: Lookout): Promise<void> {
  lookout.look('storage', await page.evaluate<string>(KEPT));
  lookout.look('storage', JSON.stringify([await context.cookies(), await context.storageState()]));
  const debuggers = await context.newCDPSession(page);
  lookout.look('history', JSON.stringify(await debuggers.send('Page.getNavigationHistory')));
  await debuggers.detach();
  lookout.look('response', await page.content());
}

function watch(page: Page, lookout: Lookout): void {
  page.on('request', (asked) => {
    const { referer, cookie } = asked.headers();
    lookout.look('history', JSON.stringify([asked.url(), referer]));
    lookout.look('storage', cookie ?? '');
  });
}

async function signIn(page: Page, token: string): Promise<void> {
  await page.goto('/sign-in');
  await page.getByLabel('Token').fill(token);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('heading', { level: 1, name: 'Repairs' }).waitFor();
}

/** What a profile of Chromium has on the disk, in the two spellings that it has for texts. */
function lookAtDisk(directory: string, canaries: Canaries, lookout: Lookout): void {
  for (const name of readdirSync(directory, { recursive: true, encoding: 'utf8' })) {
    const path = join(directory, name);
    if (!statSync(path, { throwIfNoEntry: false })?.isFile()) continue;
    const bytes = readFileSync(path);
    lookout.look('profile', bytes.toString('latin1'));
    const wide = Object.values(canaries).filter((text) => bytes.includes(Buffer.from(text, 'utf16le')));
    for (const text of wide) lookout.look('profile', text);
  }
}

/**
 * A real browser at a console that is watched: somebody signs in, enters keys and a stored input, is refused and goes back. What
 * its pages, its history, its storage and its profile on the disk have then is looked at.
 */
export async function lookInWindow(
  { origin, canaries, lookout, tell, keeps }: WatchedProgram,
  answers: readonly Replies[],
): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), 'space-watched-window-'));
  const context = await launchProfile(directory, origin);
  try {
    const page = context.pages()[0] ?? (await context.newPage());
    watch(page, lookout);
    await signIn(page, canaries.token);
    await page.goto(`/capsules?name=${canaries.control}`);
    await page.evaluate(PUT, canaries.control);
    const keys = {
      ...FIELDS,
      'secret-access-key-id': canaries.person,
      'secret-secret-access-key': canaries.person,
    };
    for (const one of answers) {
      tell({ ...one, form: answers[0]?.form, list: answers[0]?.list });
      await page.goto(CREDENTIALS);
      await sendForm(page, `${CREDENTIALS}/create`, keys);
      await lookAround(context, page, lookout);
      // What a browser fills in again by itself, it has kept.
      await page.goBack();
      await lookAround(context, page, lookout);
    }
    for (const store of STORES) {
      keeps(store);
      await page.goto(ASSISTANT);
      await sendForm(page, `${ASSISTANT}/inputs/bank`, { value: canaries.input });
      await lookAround(context, page, lookout);
      await page.goBack();
      await lookAround(context, page, lookout);
    }
    await sendForm(page, '/sign-out', {});
    await lookAround(context, page, lookout);
    await signIn(page, canaries.token);
  } finally {
    await context.close();
  }
  lookAtDisk(directory, canaries, lookout);
  rmSync(directory, { recursive: true });
}
