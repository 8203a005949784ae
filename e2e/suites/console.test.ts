/** The installed console, through a port-forward, with tokens of accounts of this Space. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Browser } from '../../console/testing/browser.ts';
import { capsuleNamespace } from '../../operator/names.ts';
import { type Forwarded, forwardConsole, tokenOf } from './support/console.ts';
import {
  assistant,
  capsule,
  deleteCapsules,
  gone,
  installed,
  kube,
  ready,
  unique,
  untilCondition,
} from './support/space.ts';
import { until } from './support/until.ts';

const { namespace, space } = installed;
const home = unique('console');
const taken = capsuleNamespace(space, home);
const NAMES = { admin: `${home}-admin`, nobody: `${home}-nobody` };

let forwarded: Forwarded;
let admin: Browser;

beforeAll(async () => {
  const account = (name: string) => ({
    apiVersion: 'v1',
    kind: 'ServiceAccount',
    metadata: { name, namespace },
  });
  const group = 'rbac.authorization.k8s.io';
  await kube.apply(account(NAMES.admin), account(NAMES.nobody), {
    apiVersion: `${group}/v1`,
    kind: 'RoleBinding',
    metadata: { name: NAMES.admin, namespace },
    roleRef: { apiGroup: group, kind: 'ClusterRole', name: `${space}-space-admin` },
    subjects: [{ kind: 'ServiceAccount', name: NAMES.admin, namespace }],
  });
  // Another object has the name of the namespace that the Capsule would get.
  await kube.apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: taken } });
  await kube.apply(capsule(home), assistant(home, 'inside', {}, `${home}-inside`));
  forwarded = await forwardConsole();
});

afterAll(async () => {
  await forwarded?.close();
  await deleteCapsules(home);
  for (const name of Object.values(NAMES)) await kube.remove('serviceaccount', name, namespace);
  await kube.remove('rolebinding', NAMES.admin, namespace);
});

it('lets a person with a Kubernetes token sign in, and names the Capsule that is not Ready', async () => {
  await untilCondition('capsule', home, 'Ready', 'False', 'NamespaceConflict');
  const { browser, shown } = await forwarded.signIn(await tokenOf(NAMES.admin));
  admin = browser;
  expect([shown.status, shown.path]).toEqual([200, '/']);
  expect(shown.text).toContain(NAMES.admin);
  expect(shown.text).toMatch(new RegExp(`Capsule ${home} .*NamespaceConflict .*"${taken}" exists`));
  expect(shown.links).toContain(`/capsules/${home}`);
});

it('shows nothing of the Space to a person without rights', async () => {
  const { browser, shown } = await forwarded.signIn(await tokenOf(NAMES.nobody));
  const paths = ['/capsules', `/capsules/${home}`, `/capsules/${home}/credentials`];
  const pages = [shown, ...(await Promise.all(paths.map((path) => browser.get(path))))];
  expect(pages.map(({ status }) => status)).toEqual([403, 403, 403, 403]);
  for (const { text } of pages) {
    expect(text).toContain(NAMES.nobody);
    expect(text).not.toMatch(/NamespaceConflict|household|ledger/);
  }
});

it('refuses an unknown token', async () => {
  const { browser, shown } = await forwarded.signIn(`${await tokenOf(NAMES.nobody)}x`);
  expect([shown.status, browser.cookies.has('__Host-space-session')]).toEqual([422, false]);
});

it('has the Capsule’s pages, and its credential sets from the broker, once it is repaired', async () => {
  await kube.remove('namespace', taken);
  await gone('namespace', taken);
  await ready('capsule', home);
  // The console learns of it by a watch.
  await until(
    'the Capsule to need no repair',
    async () => !(await admin.get('/')).text.includes(`Capsule ${home} `),
  );
  for (const path of ['', `/assistants/${home}-inside`])
    expect((await admin.get(`/capsules/${home}${path}`)).text).toContain(home);
  const sets = await until('the broker to answer the console', async () => {
    const page = await admin.get(`/capsules/${home}/credentials`);
    return page.status === 200 && page;
  });
  expect(sets.forms.map(({ action }) => action)).toContain(`/capsules/${home}/credentials/create`);
});
