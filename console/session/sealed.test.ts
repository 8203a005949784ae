import { createHash, hkdfSync, randomBytes } from 'node:crypto';
import { Secret } from '@space/broker-kit';
import { EncryptJWT } from 'jose';
import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import { type Purpose, Sealed } from './sealed.ts';

const key = () => new Secret(randomBytes(32));
const [first, second] = [key(), key()];
const schema = z.strictObject({ a: z.string() });
const NOW = Date.parse('2026-01-01T00:00:00.900Z');
const sealedBy = (keys: readonly Secret<Buffer>[], after = 0, space = 'home') =>
  new Sealed({ space, keys: () => keys, now: () => new Date(NOW + after * 1_000) });
const sealed = sealedBy([first]);
const seal = async (value = 'x', seconds = 60) => (await sealed.seal('session', { a: value }, seconds)) ?? '';
const open = (text: string, by = sealed, purpose: Purpose = 'session') => by.open(purpose, text, schema);

describe('a sealed cookie', () => {
  test('opens to what was sealed, and cannot be read', async () => {
    const text = await seal('a value');
    expect(await open(text)).toEqual({ a: 'a value' });
    expect(Buffer.from(text.split('.')[3] ?? '', 'base64url').toString('latin1')).not.toContain('value');
  });

  test('opens only for its purpose, in its Space, with its key, in its form and unchanged', async () => {
    const text = await seal();
    expect(await open(text, sealed, 'trip')).toBeUndefined();
    expect(await open(text, sealedBy([first], 0, 'other'))).toBeUndefined();
    expect(await open(text, sealedBy([second]))).toBeUndefined();
    expect(await open(text, sealedBy([]))).toBeUndefined();
    expect(await sealed.open('session', text, z.strictObject({ b: z.string() }))).toBeUndefined();
    for (const other of ['', 'x', `${text}x`, text.replace(/\.[^.]+$/, `.${'A'.repeat(22)}`)])
      expect(await open(other)).toBeUndefined();
  });

  test('opens with each of the keys, and is sealed with the first', async () => {
    const text = await seal();
    expect(await open(text, sealedBy([second, first]))).toEqual({ a: 'x' });
    const newer = (await sealedBy([second, first]).seal('session', { a: 'x' }, 60)) ?? '';
    expect(await open(newer, sealedBy([second]))).toEqual({ a: 'x' });
    expect(await open(newer)).toBeUndefined();
    await expect(sealedBy([]).seal('session', { a: 'x' }, 60)).rejects.toThrow('no key to seal with');
  });

  test('expires', async () => {
    const text = await seal('x', 60);
    expect(await open(text, sealedBy([first], 59))).toEqual({ a: 'x' });
    for (const after of [60, 61, 86_400]) expect(await open(text, sealedBy([first], after))).toBeUndefined();
  });

  test('is not longer than a cookie may be', async () => {
    const lengths = new Set<number>();
    for (let size = 2_600; size < 2_800; size += 1) {
      const text = await sealed.seal('session', { a: 'x'.repeat(size) }, 60);
      if (text !== undefined) expect(await open(text)).toBeDefined();
      lengths.add(text?.length ?? 0);
    }
    expect([lengths.has(0), Math.max(...lengths)]).toEqual([true, 3_900]);
    expect(await open('x'.repeat(3_901))).toBeUndefined();
  });

  test('is refused without valid times of sealing and expiry', async () => {
    const name = createHash('sha256').update('space-console kid\0').update(first.reveal()).digest('hex');
    const audience = 'space-console/home/session';
    const derived = new Uint8Array(hkdfSync('sha256', first.reveal(), '', audience, 32));
    const at = Math.floor(NOW / 1_000);
    const made = (change: (jwt: EncryptJWT) => EncryptJWT, a = 'x') =>
      change(
        new EncryptJWT({ value: { a } })
          .setProtectedHeader({ alg: 'dir', enc: 'A256GCM', kid: name.slice(0, 16) })
          .setAudience(audience),
      ).encrypt(derived);
    expect(await open(await made((jwt) => jwt.setIssuedAt(at).setExpirationTime(at + 60)))).toEqual({
      a: 'x',
    });
    const long = await made((jwt) => jwt.setIssuedAt(at).setExpirationTime(at + 60), 'x'.repeat(3_000));
    expect(await open(long)).toBeUndefined();
    expect(await open(await made((jwt) => jwt.setIssuedAt(at)))).toBeUndefined();
    expect(await open(await made((jwt) => jwt.setExpirationTime(at + 60)))).toBeUndefined();
  });

  test('does not hide errors of other causes', async () => {
    const text = await seal();
    const failing = new Sealed({
      space: 'home',
      keys: () => {
        throw new Error('keys cannot be read');
      },
      now: () => new Date(NOW),
    });
    await expect(open(text, failing)).rejects.toThrow('keys cannot be read');
  });
});
