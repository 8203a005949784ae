import { generateIdentity, identityToRecipient } from 'age-encryption';
import { beforeAll, expect, it } from 'vitest';
import { type StateHeader, seal } from '../../operator/backup/seal.ts';
import { fetchedState } from './fetched.ts';
import type { Place } from './place.ts';

const HEADER: StateHeader = {
  format: 1,
  space: 'home',
  namespaces: { release: 'home', system: 'home-system', services: 'home-services' },
  version: '0.2.0',
  schemas: { database: 6, objectStore: 8 },
  databaseHosts: { main: 'postgres' },
  taken: '2026-11-21T10:30:00.000Z',
  objects: 0,
};

let identity: string;
let recipient: string;
beforeAll(async () => {
  identity = await generateIdentity();
  recipient = await identityToRecipient(identity);
});

/** A pod whose program prints such a state; calls are recorded. */
async function podWith(header: StateHeader) {
  const sealed = Buffer.from(await seal(header, [], recipient)).toString('base64');
  const asked: string[] = [];
  const run = async (args: readonly string[]) => {
    asked.push(args.slice(args.indexOf('--') + 1).join(' '));
    return { code: 0, stdout: `${sealed}\n`, stderr: '' };
  };
  const place: Place = { kube: { run }, namespace: 'n', pod: 'p', container: 'c' };
  return { place, asked };
}
const fetched = (place: Place, at?: string) =>
  fetchedState(place, { space: 'home', namespace: 'home', identities: [identity] }, at, {
    version: '0.2.0',
    schemas: { database: 6, objectStore: 8 },
  });

it('requests the newest state, or that of a moment', async () => {
  const { place, asked } = await podWith(HEADER);
  expect(await fetched(place)).toMatchObject({ space: 'home', taken: HEADER.taken });
  await fetched(place, '2026-11-21T10:31:00.000Z');
  expect(asked).toEqual([
    'node /app/backup.mjs state',
    'node /app/backup.mjs state --at 2026-11-21T10:31:00.000Z',
  ]);
});

it.each<[string, Partial<StateHeader>, string]>([
  ['another Space', { space: 'other' }, 'the backup was made by the Space other in the namespace home'],
  [
    'the same name in another namespace',
    { namespaces: { ...HEADER.namespaces, release: 'people' } },
    'the backup was made by the Space home in the namespace people: give these names, with --space and --namespace',
  ],
  ['a newer version', { version: '0.3.0' }, 'made by version 0.3.0 of Space, and this version is 0.2.0'],
])('a state of %s is refused', async (_, change, says) => {
  const { place } = await podWith({ ...HEADER, ...change });
  await expect(fetched(place)).rejects.toThrow(says);
});

it('reports the program’s output if it fails', async () => {
  const run = async () => ({
    code: 1,
    stdout: '',
    stderr: 'there is no state under home/states/\ncommand terminated with exit code 1\n',
  });
  const place: Place = { kube: { run }, namespace: 'n', pod: 'p', container: 'c' };
  await expect(fetched(place)).rejects.toThrow(/^there is no state under home\/states\/$/);
});
