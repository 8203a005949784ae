/**
 * Signing in to the installed console by an OIDC issuer: the console sends requests to the API server in that
 * person's name.
 */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { browseConsole, ORIGIN } from './support/console.ts';
import { type Issuer, startIssuer } from './support/issuer.ts';
import { upgradeOurs, valuesOfOurs } from './support/releases.ts';
import { capsule, deleteCapsules, installed, kube, ready, system, unique } from './support/space.ts';

const { namespace, space } = installed;
const home = unique('issuer');
const CONSOLE = { deployment: `${space}-console`, namespace: system };

let before: Readonly<Record<string, object>>;
let issuer: Issuer;
let console: Awaited<ReturnType<typeof browseConsole>>;

beforeAll(async () => {
  const redirect = `${ORIGIN}/sign-in/issuer/answer`;
  [before, issuer] = await Promise.all([
    valuesOfOurs(),
    startIssuer(home, { redirect, person: 'mia', groups: `${home},system:masters` }),
    kube.apply(capsule(home), {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'RoleBinding',
      metadata: { name: home, namespace },
      roleRef: {
        apiGroup: 'rbac.authorization.k8s.io',
        kind: 'ClusterRole',
        name: `${space}-space-viewer`,
      },
      subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'Group', name: `oidc:${home}` }],
    }),
  ]);
  const oidc = {
    ...{ issuer: issuer.url, clientId: 'space', users: ['mia'], groups: [home] },
    ca: issuer.authority,
  };
  await upgradeOurs({ ...before, console: { ...before['console'], oidc } }, CONSOLE);
  const forwarding = await issuer.forward();
  console = await browseConsole({ [new URL(issuer.url).host]: forwarding });
  await ready('capsule', home);
});

afterAll(async () => {
  await console?.close();
  await deleteCapsules(home);
  await kube.remove('rolebinding', home, namespace);
  if (before !== undefined) await upgradeOurs(before, CONSOLE);
  await kube.remove('namespace', home);
});

it('shows a person of the issuer what RBAC lets them see, and no more', async () => {
  const context = await console.browser.newContext({ baseURL: ORIGIN, ignoreHTTPSErrors: true });
  context.setDefaultTimeout(240_000);
  const page = await context.newPage();
  await page.goto(`/sign-in?to=/capsules/${home}`);
  await page.getByRole('link', { name: 'Sign in with' }).click();
  await page.getByRole('heading', { name: `Capsule ${home}` }).waitFor();
  expect(await page.locator('.who .user').textContent()).toBe('oidc:mia');
  // A viewer sees no button, and no keys.
  expect(await page.getByRole('button', { name: 'Suspend' }).count()).toBe(0);
  expect((await page.goto(`/capsules/${home}/credentials`))?.status()).toBe(403);
  await context.close();
});
