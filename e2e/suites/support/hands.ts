import { type Page, tabTo } from '../../../console/testing/browser-window.ts';

/** How a person uses a page: what they press and fill in, by the names that they read there. */
export interface InputMethod {
  /** `beside` is a text before the element that distinguishes it from others of its name. */
  press(page: Page, name: string, beside?: string): Promise<void>;
  fill(page: Page, label: string, value: string): Promise<void>;
}

const NAMED = ['a', 'button', 'summary'];

/** Clicks what a user would see: the first visible element of that name. */
export const mouse: InputMethod = {
  async press(page, name, beside) {
    const place = beside === undefined ? page.locator('main') : page.locator('.card', { hasText: beside });
    await place.locator(NAMED.map((tag) => `${tag}:text-is("${name}")`).join(', ')).click();
  },
  async fill(page, label, value) {
    const seen = page.getByLabel(label, { exact: true }).locator('visible=true');
    await seen.first().fill(value);
  },
};

/** Without a mouse, every element is reached by Tab from the present one. */
export const keyboard: InputMethod = {
  async press(page, name, beside) {
    if (beside !== undefined) await tabTo(page, beside);
    await tabTo(page, name);
    await page.keyboard.press('Enter');
  },
  async fill(page, label, value) {
    await tabTo(page, label);
    await page.keyboard.press('ControlOrMeta+A');
    await page.keyboard.type(value);
  },
};
