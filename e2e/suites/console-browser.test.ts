/**
 * The installed console in a real browser: what an administrator does there, with script and a mouse, and without
 * either.
 */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { parse } from 'yaml';
import { type Page, signedIn, violationsOnEach } from '../../console/testing/browser-window.ts';
import { browseConsole, tokenOf } from './support/console.ts';
import { type InputMethod, keyboard, mouse } from './support/hands.ts';
import { type Provider, startProvider } from './support/own-bucket.ts';
import { upgradeOurs, valuesOfOurs } from './support/releases.ts';
import {
  assistant,
  capsule,
  deleteCapsules,
  installed,
  kube,
  manifest,
  ready,
  services,
  unique,
  untilCondition,
} from './support/space.ts';
import { until } from './support/until.ts';

const { namespace } = installed;
const admin = unique('browser');
const BROKER = { deployment: 'objectstore-broker', namespace: services };
const HOST = 'rates.outside-bank.org';
const VALUE = 'sk_live_canary_51b0aa93';
const BANK = parse(
  readFileSync(resolve(import.meta.dirname, '../../manifests/examples/ledger-bank.yaml'), 'utf8'),
).spec.manifest.stored_inputs.bank;

/** An administrator, and how they use the page. */
interface Administrator {
  readonly who: string;
  readonly hands: InputMethod;
  readonly script: boolean;
  /** The Capsule that they administer. */
  readonly home: string;
}

const persons: readonly Administrator[] = [
  { who: 'with script and a mouse', hands: mouse, script: true, home: unique('mouse') },
  { who: 'without script, by keyboard,', hands: keyboard, script: false, home: unique('keyboard') },
];

let before: object;
let provider: Provider;
let console: Awaited<ReturnType<typeof browseConsole>>;
let token: string;

/** An Assistant that asks for a stored input, and in a later version for a host. */
const saver = (home: string, allowed_hosts: readonly string[] = []) => {
  const made = manifest('saver', { stored_inputs: { bank: BANK }, network: { allowed_hosts } });
  const version = allowed_hosts.length === 0 ? '1.0.0' : '1.1.0';
  const platform = { ...made.platform, version };
  return assistant(home, 'saver', { manifest: { ...made, platform } }, `${home}-saver`);
};

/** A person whom the release names as its administrator, with the chart's own roles and no others. */
const PERSON = { kind: 'ServiceAccount', name: admin, namespace };

beforeAll(async () => {
  [before, provider] = await Promise.all([
    valuesOfOurs(),
    startProvider(unique('provider')),
    kube.apply({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: admin, namespace } }),
    kube.apply(...persons.map(({ home }) => capsule(home, { approval: 'manual', suspend: true }))),
  ]);
  const { objectStore = {} } = before as { objectStore?: object };
  const people = { administrators: [PERSON], wholeCluster: true };
  await upgradeOurs({ ...before, people, objectStore: { ...objectStore, byok: provider.byok } }, BROKER);
  [console, token] = await Promise.all([browseConsole(), tokenOf(admin)]);
  for (const { home } of persons) await untilCondition('capsule', home, 'Ready', 'False', 'Suspended');
});

afterAll(async () => {
  await console?.close();
  await deleteCapsules(...persons.map(({ home }) => home));
  await kube.remove('serviceaccount', admin, namespace);
  for (const { home } of persons) await kube.remove('secret', `${home}.saver.bank`, namespace);
  if (before !== undefined) await upgradeOurs(before, BROKER);
  if (provider !== undefined) await kube.remove('namespace', provider.namespace);
});

/** Waits until the page says this. With script it updates itself; without, it is loaded again. */
async function says(page: Page, script: boolean, text: string, at = 'main'): Promise<void> {
  const place = page
    .locator(at)
    .getByText(text, { exact: at !== 'main' })
    .first();
  if (script) return place.waitFor();
  await until(`the page to say ${text}`, async () => {
    if (await place.isVisible()) return true;
    await page.reload();
    return false;
  });
}

it.each(persons)(
  'somebody $who resumes a Capsule, approves, enters a stored input and stores a credential set',
  async ({ hands, script, home }) => {
    const { context, page } = await signedIn(
      console.browser,
      { ...console, token },
      { script, bypassCSP: script },
    );
    const wrong: string[] = [];
    const look = async () => {
      if (script) wrong.push(...(await violationsOnEach(page)));
    };
    const state = (text: string) => says(page, script, text, '.top');

    // A Capsule that is not Ready is repaired on the page that reports it.
    await page.getByText(`Capsule ${home}`).waitFor();
    await look();
    await hands.press(page, 'Resume', `Capsule ${home}`);
    await page.getByRole('heading', { name: `Capsule ${home}` }).waitFor();
    await state('Ready');
    await look();

    // The administrator approves what an Assistant may do, and enters what it asks people for.
    await kube.apply(saver(home));
    await untilCondition('assistant', `${home}-saver`, 'Ready', 'False', 'ApprovalMissing');
    await page.goto('/');
    await hands.press(page, 'Review what it may do, and approve', `Assistant ${home}-saver`);
    await page.getByText('It does not run yet').waitFor();
    await hands.press(page, 'Approve exactly this manifest');
    await page.getByText('Approved', { exact: true }).first().waitFor();
    await state('InputsMissing');
    await look();
    await hands.fill(page, 'Value', VALUE);
    await hands.press(page, 'Store');
    await page.locator('dd').getByText(`${home}.saver.bank`).waitFor();
    await state('Ready');
    await look();

    // A later version asks for more, and only what was shown is approved.
    await kube.apply(saver(home, [HOST]));
    await state('ApprovalMissing');
    await page.getByText('1.0.0 → 1.1.0').waitFor();
    await page.getByRole('listitem').filter({ hasText: 'new' }).filter({ hasText: HOST }).waitFor();
    await look();
    await hands.press(page, 'Approve exactly this manifest');
    await page.getByText('Approved', { exact: true }).first().waitFor();
    await says(page, script, 'Exactly this manifest runs.');
    await state('Ready');
    await ready('assistant', `${home}-saver`);

    await page.goto(`/capsules/${home}`);
    await hands.press(page, 'Its own keys for an S3 store');
    await credentials(page, hands, look);
    expect(await page.content()).not.toContain(VALUE);
    expect(wrong).toEqual([]);
    await context.close();
  },
);

/** All operations on a credential set, at a real S3 server. */
async function credentials(page: Page, hands: InputMethod, look: () => Promise<void>): Promise<void> {
  const { endpoint = '', region = '', bucket = '' } = provider.fields;
  const { 'access-key-id': id = '', 'secret-access-key': secret = '' } = provider.fields;
  const keys = async (value: string) => {
    await hands.fill(page, 'Access key ID', id);
    await hands.fill(page, 'Secret access key', value);
  };
  await page.getByText('There is none: objects are stored').waitFor();
  await hands.fill(page, 'Name', 'archive');
  await hands.fill(page, 'Endpoint', endpoint);
  await hands.fill(page, 'Region', region);
  await hands.fill(page, 'Bucket', bucket);
  /** The broker gives the store five seconds, which a busy node may miss. As a person would, the test then tries again. */
  const submit = (value: string, button: string) =>
    until('the store to answer in time', async () => {
      await keys(value);
      await Promise.all([page.waitForEvent('load'), hands.press(page, button)]);
      return (await page.getByText(/took too long to answer|endpoint does not answer/).count()) === 0;
    });
  await submit('not-the-secret-of-this-access-key', 'Verify and save');
  await page.locator('.field', { hasText: 'does not accept this key' }).waitFor();
  await look();
  await submit(secret, 'Verify and save');
  await page.getByRole('cell', { name: 'archive' }).waitFor();

  await hands.press(page, 'Rotate');
  await submit(secret, 'Verify and rotate');
  await page.getByText(/2, verified .*, rotated/).waitFor();
  await look();
  await hands.press(page, 'Select');
  await page.getByText('selected', { exact: true }).waitFor();
  await hands.press(page, 'Select none');
  await page.getByRole('button', { name: 'Delete' }).waitFor();
  expect(await page.content()).not.toContain(secret);
  await hands.press(page, 'Delete');
  await page.getByText('There is none: objects are stored').waitFor();
  await look();
}
