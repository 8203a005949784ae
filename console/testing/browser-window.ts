import axe from 'axe-core';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import type { Role } from './environment.ts';
import type { Scene } from './scene.ts';

export type { Page };

interface Eyes {
  readonly width?: number;
  readonly scheme?: 'light' | 'dark';
  readonly script?: boolean;
  /** Lets a tool of the test into the page. */
  readonly bypassCSP?: boolean;
}

interface Window {
  readonly context: BrowserContext;
  readonly page: Page;
}

/** A window of a real browser in which somebody with this role has signed in by the form. */
export const windowOf = (
  browser: Browser,
  { environment: { origin, tokens } }: Pick<Scene, 'environment'>,
  role: Role,
  eyes: Eyes = {},
): Promise<Window> => signedIn(browser, { origin, token: tokens[role] }, eyes);

/** The same at any console, with a token. */
export async function signedIn(
  browser: Browser,
  { origin, token }: { readonly origin: string; readonly token: string },
  { width = 1280, scheme = 'light', script = true, bypassCSP = false }: Eyes = {},
): Promise<Window> {
  const context = await browser.newContext({
    baseURL: origin,
    viewport: { width, height: width < 600 ? 844 : 800 },
    colorScheme: scheme,
    javaScriptEnabled: script,
    bypassCSP,
    // Its certificate is the Space's own.
    ignoreHTTPSErrors: true,
  });
  // A machine that has twenty things to do is slow, and not wrong.
  context.setDefaultTimeout(240_000);
  const page = await context.newPage();
  await page.goto('/sign-in');
  await page.getByLabel('Token').fill(token);
  await page.getByRole('button', { name: 'Sign in' }).click();
  // Not the page itself, which not everybody may see.
  await page.locator('nav.side').waitFor();
  return { context, page };
}

/** Fills in the form that goes to an address, by the names of its fields, and sends it. */
export async function sendForm(
  page: Page,
  action: string,
  fields: Readonly<Record<string, string>> = {},
): Promise<void> {
  const form = page.locator(`form[action="${action}"]`).first();
  for (const [name, value] of Object.entries(fields)) {
    const field = form.locator(`input[name="${name}"]:not([type=hidden])`);
    if ((await field.count()) > 0) await field.fill(value);
  }
  await Promise.all([page.waitForEvent('load'), form.locator('button').click()]);
}

interface AxeResult {
  readonly violations: readonly {
    readonly id: string;
    readonly nodes: readonly { readonly html: string }[];
  }[];
}

/** What axe finds wrong, with the elements. The pages' policy allows no script, so it is injected by the debugger. */
export async function violations(page: Page): Promise<readonly string[]> {
  await page.addScriptTag({ content: axe.source });
  const found = await page.evaluate(() =>
    (globalThis as unknown as { axe: { run(): Promise<AxeResult> } }).axe.run(),
  );
  return found.violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' | ')}`);
}

const SCHEMES = ['light', 'dark'] as const;
const WIDTHS = [1280, 390];

const isWide = (page: Page) =>
  page.evaluate<boolean>('document.documentElement.scrollWidth > document.documentElement.clientWidth');

/** The same in both schemes, on a wide screen and on a narrow one, and whether something runs over the side. */
export async function violationsOnEach(page: Page): Promise<readonly string[]> {
  const before = page.viewportSize();
  const found: string[] = [];
  for (const colorScheme of SCHEMES)
    for (const width of WIDTHS) {
      // A colour on its way to another is neither: buttons take 120 ms.
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
      await page.setViewportSize({ width, height: 800 });
      for (const one of await violations(page)) found.push(`${colorScheme}, ${width} px: ${one}`);
      if (await isWide(page)) found.push(`${colorScheme}, ${width} px: it is too wide`);
    }
  await page.emulateMedia({ colorScheme: null, reducedMotion: null });
  if (before !== null) await page.setViewportSize(before);
  return found;
}

const MOST_PRESSES = 80;

/** Tabs on until the element of this name has the focus, which a person must be able to see there. */
export async function tabTo(page: Page, name: string): Promise<void> {
  for (let presses = 0; presses < MOST_PRESSES; presses += 1) {
    await page.keyboard.press('Tab');
    const at = page.locator(':focus');
    const text = await at.evaluate(
      (element: { labels?: Iterable<{ textContent: string }>; textContent: string | null }) =>
        [...(element.labels ?? [])].map(({ textContent }) => textContent).join(' ') || element.textContent,
    );
    if (text?.trim() !== name) continue;
    const outline = await at.evaluate('getComputedStyle(document.activeElement).outlineStyle');
    if (outline !== 'solid') throw new Error(`nobody sees that ${name} has the focus: ${outline}`);
    return;
  }
  throw new Error(`${MOST_PRESSES} presses of Tab lead to no ${name}`);
}
