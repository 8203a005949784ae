import { generateIdentity, identityToRecipient } from 'age-encryption';
import { expect, it } from 'vitest';
import { seal } from '../../../operator/backup/seal.ts';
import { createSteps } from '../../progress/index.ts';
import type { Kube } from '../../space/kube.ts';
import type { Place } from '../place.ts';
import type { CapsuleRestore } from './model.ts';
import { reachMoment } from './moment.ts';

const KNOWN = { version: '0.2.0', schemas: { database: 9, objectStore: 8 } };

/**
 * What a restore of one Capsule asks before it changes anything, in a Space whose registry says this about the
 * Capsule.
 */
async function reached(server: string, databases: readonly object[] = []) {
  const identity = await generateIdentity();
  const namespaces = { release: 'home', system: 'home-system', services: 'home-services' };
  const metadata = { name: 'household', namespace: 'home' };
  const capsule = { apiVersion: 'platform.space/v1', kind: 'Capsule', metadata, spec: {} };
  const header = {
    format: 1,
    space: 'home',
    namespaces,
    ...KNOWN,
    databaseHosts: { main: 'postgres' },
    taken: '2026-11-21T10:30:00.000Z',
    objects: 1,
  } as const;
  const sealed = await seal(header, [capsule], await identityToRecipient(identity));
  const copy = { label: 'a', timestamp: { start: 1, stop: 2 }, 'database-ref': [] };
  const stanza = {
    status: { code: 0 },
    repo: [{ status: { code: 0, message: '' } }],
    archive: [],
    backup: [copy],
  };
  const answers: readonly (readonly [RegExp, string])[] = [
    [/backup\.mjs state/, Buffer.from(sealed).toString('base64')],
    [/backup\.mjs list/, '{}'],
    [/repository\.sh copies/, JSON.stringify([stanza])],
    [/scratch\.sh/, 'done'],
    [/last_archived_wal/, 't'],
    [/pg_database/, '[]'],
    [/broker\.placement/, server],
    [/FROM broker\.database/, JSON.stringify(databases)],
  ];
  const asked: string[] = [];
  const run = async (args: readonly string[], input = '') => {
    const program = `${args.join(' ')} ${input}`;
    asked.push(program);
    return { code: 0, stdout: answers.find(([of]) => of.test(program))?.[1] ?? '', stderr: '' };
  };
  const kube = { run, get: async () => undefined, apply: () => expect.unreachable('it changed something') };
  const place: Place = { kube: { run }, namespace: 'home-services', pod: 'p', container: 'c' };
  const about = {
    ...{
      kube: kube as unknown as Kube,
      kubectl: ['kubectl'],
      space: 'home',
      namespace: 'home',
      at: undefined,
    },
    ...{ capsule: 'household', as: 'attic', identities: [identity], signal: new AbortController().signal },
    ...{ steps: createSteps({ output: { write: () => true } as never }), now: () => 0 },
  } satisfies CapsuleRestore;
  const then = reachMoment(
    about,
    KNOWN,
    { server: place, scratch: place, loader: place, objects: place },
    false,
  );
  return { then, asked };
}

it('restores the databases of a Capsule of main that the registry has', async () => {
  const databases = [{ app: 'ledger', name: 'spc_1' }];
  const { then } = await reached('main', databases);
  expect(await then).toMatchObject({ databases, tenant: { capsule: { metadata: { name: 'attic' } } } });
});

it('a Capsule of another server is refused, and not mistaken for one without databases', async () => {
  const { then, asked } = await reached('b');
  await expect(then).rejects.toThrow(/were on the PostgreSQL server b at that moment/);
  expect(asked.filter((program) => program.includes('ALTER'))).toEqual([]);
});
