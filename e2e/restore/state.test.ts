import { Encrypter, generateIdentity, identityToRecipient } from 'age-encryption';
import { beforeAll, describe, expect, it } from 'vitest';
import type { SavedObject } from '../../operator/backup/collect.ts';
import { type StateHeader, seal } from '../../operator/backup/seal.ts';
import { merge, openState, type State } from './state.ts';

const HEADER: StateHeader = {
  format: 1,
  space: 'home',
  namespaces: { release: 'home', system: 'home-system', services: 'home-services' },
  taken: '2026-11-21T10:30:00.000Z',
  objects: 2,
};
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
    const { format, objects: _, ...header } = HEADER;
    expect(await openState(sealed, [identity])).toEqual({ ...header, objects });
    const another = await generateIdentity();
    await expect(openState(sealed, [another])).rejects.toThrow(/another recipient/);
    expect(await openState(sealed, [another, identity])).toEqual({ ...header, objects });
    for (const none of [[], ['a password']])
      await expect(openState(sealed, none)).rejects.toThrow(/no AGE-SECRET-KEY-1/);
  });

  it('is refused when one byte is another, or it was cut short anywhere', async () => {
    const sealed = await seal(HEADER, objects, recipient);
    for (let at = 0; at < sealed.length; at += 37) {
      const changed = Uint8Array.from(sealed, (byte, index) => (index === at ? byte ^ 1 : byte));
      await expect(openState(changed, [identity])).rejects.toThrow(/cut short or changed/);
      await expect(openState(sealed.slice(0, at), [identity])).rejects.toThrow(/cut short or changed/);
    }
  });

  it('is refused when a newer version wrote it, or it has fewer objects than it says', async () => {
    const sealedText = async (text: string) => {
      const encrypter = new Encrypter();
      encrypter.addRecipient(recipient);
      return encrypter.encrypt(text);
    };
    await expect(
      openState(await sealedText(`${JSON.stringify({ ...HEADER, format: 2 })}\n`), [identity]),
    ).rejects.toThrow(/format 2, which a newer version wrote/);
    await expect(openState(await seal(HEADER, [capsule('one')], recipient), [identity])).rejects.toThrow(
      /has 1 objects, and its head says 2/,
    );
  });
});

describe('a Space as it was at a moment', () => {
  it('has the Capsules of then, and every key that there was or is', () => {
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
