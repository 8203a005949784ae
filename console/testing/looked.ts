import type { Browser, BrowserContext, Page } from 'playwright-core';
import type { Role } from './environment.ts';
import type { Scene } from './scene.ts';

interface Eyes {
  readonly width?: number;
  readonly scheme?: 'light' | 'dark';
  readonly script?: boolean;
  /** Lets a tool of the test into the page. */
  readonly bypassCSP?: boolean;
}

/** A window of a real browser in which somebody with this role has signed in by the form. */
export async function windowOf(
  browser: Browser,
  { environment }: Pick<Scene, 'environment'>,
  role: Role,
  { width = 1280, scheme = 'light', script = true, bypassCSP = false }: Eyes = {},
): Promise<{ readonly context: BrowserContext; readonly page: Page }> {
  const context = await browser.newContext({
    baseURL: environment.origin,
    viewport: { width, height: width < 600 ? 844 : 800 },
    colorScheme: scheme,
    javaScriptEnabled: script,
    bypassCSP,
  });
  // A machine that has twenty things to do is slow, and not wrong.
  context.setDefaultTimeout(240_000);
  const page = await context.newPage();
  await page.goto('/sign-in');
  await page.getByLabel('Token').fill(environment.tokens[role]);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('heading', { level: 1, name: 'Repairs' }).waitFor();
  return { context, page };
}
