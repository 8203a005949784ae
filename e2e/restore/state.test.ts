import { Encrypter, generateIdentity, identityToRecipient } from 'age-encryption';
import { beforeAll, describe, expect, it } from 'vitest';
import type { SavedObject } from '../../operator/backup/collect.ts';
import { type StateHeader, seal } from '../../operator/backup/seal.ts';
import { merge, openState, provisionedIn, type State } from './state.ts';
import { requireMatch } from './whereabouts.ts';

const HEADER: StateHeader = {
  format: 1,
  space: 'home',
  namespaces: { release: 'home', system: 'home-system', services: 'home-services' },
  version: '0.2.0',
  schemas: { database: 6, objectStore: 8 },
  databaseHosts: { main: 'postgres', b: 'pg-b' },
  taken: '2026-11-21T10:30:00.000Z',
  objects: 2,
};
const KNOWN = { version: '0.2.0', schemas: { database: 6, objectStore: 8 } };
const secret = (name: string, value: string, namespace = 'home-services'): SavedObject => ({
  apiVersion: 'v1',
  kind: 'Secret',
  metadata: { name, namespace },
  data: { value: Buffer.from(value).toString('base64') },
});
const capsule = (name: string): SavedObject => ({
  apiVersion: 'platform.space/v1',
  kind: 'Capsule',
  metadata: { name, namespace: 'home' },
  spec: {},
});

let identity: string;
let recipient: string;
beforeAll(async () => {
  identity = await generateIdentity();
  recipient = await identityToRecipient(identity);
});

describe('a Space’s state', () => {
  const objects = [secret('db-admin', 'a-password'), capsule('household')];

  it('is opened by the identity of its recipient, and read by nobody else', async () => {
    const sealed = await seal(HEADER, objects, recipient);
    for (const text of ['db-admin', 'household', Buffer.from('a-password').toString('base64')])
      expect(Buffer.from(sealed).includes(text)).toBe(false);
    const { format, version, schemas, objects: _, ...header } = HEADER;
    expect(await openState(sealed, [identity], KNOWN)).toEqual({ ...header, objects });
    const another = await generateIdentity();
    await expect(openState(sealed, [another], KNOWN)).rejects.toThrow(/another recipient/);
    expect(await openState(sealed, [another, identity], KNOWN)).toEqual({ ...header, objects });
    for (const none of [[], ['a password']])
      await expect(openState(sealed, none, KNOWN)).rejects.toThrow(/no valid AGE-SECRET-KEY-1/);
  });

  it('is refused when one byte is another, or it was cut short anywhere', async () => {
    const sealed = await seal(HEADER, objects, recipient);
    for (let at = 0; at < sealed.length; at += 37) {
      const changed = Uint8Array.from(sealed, (byte, index) => (index === at ? byte ^ 1 : byte));
      await expect(openState(changed, [identity], KNOWN)).rejects.toThrow(/truncated or changed/);
      await expect(openState(sealed.slice(0, at), [identity], KNOWN)).rejects.toThrow(/truncated or changed/);
    }
  });

  const sealedText = async (text: string) => {
    const encrypter = new Encrypter();
    encrypter.addRecipient(recipient);
    return encrypter.encrypt(text);
  };

  it.each<[string, object]>([
    ['chart', { version: '0.3.0' }],
    ['chart, whose second number has two digits', { version: '0.10.0' }],
    ['chart that nobody knows how to compare', { version: 'next' }],
    ['registry of the database broker', { schemas: { ...HEADER.schemas, database: 7 } }],
    ['registry of the object store', { schemas: { ...HEADER.schemas, objectStore: 9 } }],
    ['registry that is not there yet', { schemas: { ...HEADER.schemas, another: 1 } }],
  ])('is refused when it was made with a newer %s', async (_, newer) => {
    const sealed = await seal({ ...HEADER, ...newer }, objects, recipient);
    await expect(openState(sealed, [identity], KNOWN)).rejects.toThrow(
      /made by version .* and this version is 0\.2\.0: restore with that version, or a later one\. Nothing was changed/,
    );
  });

  it('is opened when it was made with an older version, or with one that did not say which it was', async () => {
    const { version, schemas, ...unsaid } = HEADER;
    const older = { ...HEADER, version: '0.1.9', schemas: { database: 5, objectStore: 8 } };
    for (const header of [older, unsaid]) {
      const sealed = await sealedText([header, ...objects].map((line) => JSON.stringify(line)).join('\n'));
      expect((await openState(sealed, [identity], KNOWN)).objects).toEqual(objects);
    }
  });

  it('is refused when it is something else', async () => {
    await expect(openState(await sealedText('a letter\n'), [identity], KNOWN)).rejects.toThrow(
      /does not contain a state/,
    );
  });

  it('is refused when a newer version wrote it, or it has fewer objects than it says', async () => {
    await expect(
      openState(await sealedText(`${JSON.stringify({ ...HEADER, format: 2 })}\n`), [identity], KNOWN),
    ).rejects.toThrow(/format 2, which a newer version of Space wrote/);
    await expect(
      openState(await seal(HEADER, [capsule('one')], recipient), [identity], KNOWN),
    ).rejects.toThrow(/has 1 objects, but its header says 2/);
  });
});

describe('a Space as it was at a moment', () => {
  it('has the Capsules of that time, and every key that existed then or exists now', () => {
    const state = (taken: string, ...objects: SavedObject[]) =>
      ({ ...HEADER, taken, objects }) as unknown as State;
    const then = state('then', secret('keys', 'old'), secret('gone', 'x'), capsule('deleted'));
    const newest = state('now', secret('keys', 'new'), secret('later', 'y'), capsule('made'));
    expect(merge(then, newest)).toEqual([
      secret('keys', 'new'),
      secret('gone', 'x'),
      secret('later', 'y'),
      capsule('deleted'),
    ]);
  });
});

describe('a Capsule that a server was chosen for and that was never provisioned', () => {
  const principal = (of: string, data: Record<string, string>, annotations: Record<string, string>) => ({
    ...secret(`capsule-${of}-database`, '', 'home-system'),
    metadata: { name: `capsule-${of}-database`, namespace: 'home-system', annotations },
    data: { principal: 'c3BjX2RicA==', ...data },
  });
  const owner = { 'platform.space/owner-uid': 'u' };
  const limits = { ...owner, 'platform.space/database-limits': 'default' };
  const state: State = {
    ...{ space: HEADER.space, namespaces: HEADER.namespaces, taken: HEADER.taken },
    objects: [
      principal('placed', {}, owner),
      principal('lost', { 'database-url': 'cG9zdGdyZXM=' }, limits),
      // Its databases were kept for it, and it takes them up at that moment.
      principal('adopting', {}, limits),
      ...['placed', 'lost', 'adopting', 'without-secret'].map(capsule),
    ],
  };
  const judged = (...names: readonly string[]) => {
    const found = names.map((name) => ({ capsule: name, noted: 'b', movingTo: null, on: [], missing: [] }));
    return requireMatch(found, { capsules: provisionedIn(state), isFilled: true, acceptedLost: [] });
  };

  it('is not missed, since it had no databases', () => {
    expect(judged('placed').lost).toEqual([]);
  });

  it.each(['lost', 'adopting', 'without-secret'])('is told from one that is %s', (name) => {
    expect(() => judged(name)).toThrow(`--accept-lost ${name}`);
  });
});
