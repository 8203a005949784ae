/** What each account of a Space may do, according to a real API server, compared with docs/rights.md. */
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { eventually } from '../../testing/eventually.ts';
import { differencesOf, documentedRights, type Rights, rightsHeldBy } from './rights-held.ts';
import { rulesOn } from './rights-page.ts';
import { startWithRights, type WithRights } from './testing/rights.ts';

const PAGE = resolve(import.meta.dirname, '../../docs/rights.md');

let given: WithRights;
let drawn: Rights;

beforeAll(async () => {
  given = await startWithRights();
  drawn = documentedRights(rulesOn(await readFile(PAGE, 'utf8')), given.accounts);
  // Roles are known a moment after they were created.
  await eventually(async () => (await rightsHeldBy(given.accounts)).isSupersetOf(drawn), {
    what: 'roles are known',
  });
}, 900_000);

afterAll(() => given?.stop());

it('every account has the rights that docs/rights.md lists, and no other', async () => {
  expect(drawn.size).toBeGreaterThan(300);
  expect(differencesOf(await rightsHeldBy(given.accounts), drawn)).toEqual([]);
});

it('a right too many, or too few, is named with its account', async () => {
  const { client } = given.server;
  const path = '/apis/rbac.authorization.k8s.io/v1/namespaces/home/roles/home-uninstall-guard';
  const rule = { apiGroups: ['platform.space'], resources: ['assistants'], verbs: ['list'] };
  const contentType = 'application/merge-patch+json';
  await client.call({ method: 'PATCH', path, contentType, body: { rules: [rule] } });
  const wrong = [
    'not on the page: home-system/home-uninstall-guard in home: list assistants.platform.space',
    'missing: home-system/home-uninstall-guard in home: list capsules.platform.space',
  ];
  await eventually(
    async () => differencesOf(await rightsHeldBy(given.accounts), drawn).join() === wrong.join(),
    {
      what: wrong.join(', '),
    },
  );
});
