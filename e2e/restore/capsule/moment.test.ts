import { generateIdentity, identityToRecipient } from 'age-encryption';
import { expect, it } from 'vitest';
import { seal } from '../../../operator/backup/seal.ts';
import { createSteps } from '../../progress/index.ts';
import type { Kube } from '../../space/kube.ts';
import type { Place } from '../place.ts';
import type { CapsuleRestore } from './model.ts';
import { reachMoment } from './moment.ts';

const KNOWN = { version: '0.2.0', schemas: { database: 9, objectStore: 8 } };

const nameOf = (file: string) => `00000001000000000000000${file}`;

/**
 * What a restore of one Capsule asks before it changes anything, in a Space whose registry says this about the
 * Capsule.
 */
async function reached(
  server: string,
  {
    databases = [],
    archived = ['3', '4', '5'],
    at,
  }: { databases?: readonly object[]; archived?: readonly string[]; at?: string } = {},
) {
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
  const archive = { start: nameOf('3'), stop: nameOf('4') };
  const copy = {
    label: 'a',
    archive,
    database: { id: 1 },
    timestamp: { start: 1, stop: 2 },
    'database-ref': [],
  };
  const files = archived.map((file) => [`${nameOf(file)}-${'ab'.repeat(20)}.zst`, { type: 'file', time: 3 }]);
  const stanza = {
    status: { code: 0 },
    repo: [{ status: { code: 0, message: '' } }],
    archive: [{ id: '17-1', database: { id: 1 } }],
    backup: [copy],
  };
  const answers: readonly (readonly [RegExp, string])[] = [
    [/backup\.mjs state/, Buffer.from(sealed).toString('base64')],
    [/backup\.mjs list/, '{}'],
    [/repository\.sh copies/, JSON.stringify([stanza])],
    [/repository\.sh way/, 'a current 1:0'],
    [/repository\.sh files/, JSON.stringify(Object.fromEntries(files))],
    [/repository\.sh committed/, '2026-11-21 10:20:00.5'],
    [/pg_switch_wal/, nameOf('5')],
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
      at,
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
  const { then } = await reached('main', { databases });
  expect(await then).toMatchObject({ databases, tenant: { capsule: { metadata: { name: 'attic' } } } });
});

it('a Capsule of another server is refused, and not mistaken for one without databases', async () => {
  const { then, asked } = await reached('b');
  await expect(then).rejects.toThrow(/were on the PostgreSQL server b at that moment/);
  expect(asked.filter((program) => program.includes('ALTER'))).toEqual([]);
});

it('without a moment, a log with a gap is refused before a server is started', async () => {
  const { then, asked } = await reached('main', { archived: ['3', '4', '6'] });
  await expect(then).rejects.toThrow(
    /lacks the file 000000010000000000000005 of the log, .* Give a time before 2026-11-21T10:20:00\.500Z, with --at/,
  );
  expect(asked.filter((program) => program.includes('scratch.sh'))).toEqual([]);
});

it('so is a log whose end the server has dropped, though it says that it has archived it', async () => {
  const { then } = await reached('main', { archived: ['3', '4'] });
  await expect(then).rejects.toThrow(/lacks the file 000000010000000000000005 of the log/);
});

it('with a moment, the server that recovers says whether the log reaches it', async () => {
  const { then } = await reached('main', { archived: ['3', '4', '6'], at: '2026-11-21T10:30:00.000Z' });
  expect(await then).toMatchObject({ reached: 'done' });
});
