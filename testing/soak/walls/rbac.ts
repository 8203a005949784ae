/** Changes each rule of each role, and each binding, alone in a real API server, and compares the rights of its accounts with docs/rights.md. */
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { KubeObject } from '../../../e2e/space/kube-object.ts';
import {
  collectionOf,
  differencesOf,
  documentedRights,
  type Rights,
  rightsHeldBy,
} from '../../../e2e/space/rights-held.ts';
import { rulesOn } from '../../../e2e/space/rights-page.ts';
import { startWithRights, type WithRights } from '../../../e2e/space/testing/rights.ts';
import { eventually } from '../../eventually.ts';
import type { Part, Tried } from './part.ts';
import { type Mutant, mutantsOf } from './rbac/mutants.ts';

const PAGE = resolve(import.meta.dirname, '../../../docs/rights.md');
/** The API server uses a changed role only after a moment. */
const KNOWN_MS = 3_000;
/** The quick run takes a minute. */
const QUICK_EACH = 4;

/** The test itself creates the rights of its people and strangers. */
const isOurs = ({ metadata: { name } }: KubeObject) => !name.startsWith('person-');
const protectionOf = ({ kind, metadata: { namespace, name } }: KubeObject) =>
  `${kind} ${namespace === undefined ? '' : `${namespace}/`}${name}`;

export const rbac: Part = {
  name: 'rbac',
  async tryAll({ quick, only }) {
    const given = await startWithRights();
    try {
      const drawn = documentedRights(rulesOn(await readFile(PAGE, 'utf8')), given.accounts);
      const asDrawn = async () => differencesOf(await rightsHeldBy(given.accounts), drawn).length === 0;
      await eventually(asDrawn, { what: 'all rights are as on the page' });
      const wanted = given.objects
        .filter((object) => isOurs(object) && isWanted(object, only))
        .flatMap(mutantsOf)
        .filter((_, i) => !quick || i % QUICK_EACH === 0);
      const tried: Tried[] = [];
      for (const mutant of wanted) {
        const shown = await tryOne(given, mutant, drawn);
        tried.push({
          protection: protectionOf(mutant.object),
          change: mutant.change,
          shown,
          reason: undefined,
        });
        // The next change is the only one only after this one is undone.
        await eventually(asDrawn, { what: 'all rights are as on the page again' });
      }
      return tried;
    } finally {
      await given.stop();
    }
  },
};

const isWanted = ({ metadata: { name } }: KubeObject, only: readonly string[]) =>
  only.length === 0 || only.some((word) => name.includes(word));

async function tryOne(
  { server, accounts }: WithRights,
  mutant: Mutant,
  drawn: Rights,
): Promise<string | undefined> {
  const { object, instead } = mutant;
  const { client } = server;
  const collection = collectionOf(object) ?? '';
  const path = `${collection}/${object.metadata.name}`;
  if (instead === undefined) await client.call({ method: 'DELETE', path, body: {} });
  else await client.call({ method: 'PUT', path, body: instead });
  try {
    const until = performance.now() + KNOWN_MS;
    for (;;) {
      const [first, ...others] = differencesOf(await rightsHeldBy(accounts), drawn);
      if (first !== undefined) return others.length === 0 ? first : `${first}, and ${others.length} more`;
      if (performance.now() > until) return undefined;
    }
  } finally {
    if (instead === undefined) await client.call({ method: 'POST', path: collection, body: object });
    else await client.call({ method: 'PUT', path, body: object });
  }
}
