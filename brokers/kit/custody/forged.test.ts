import { createDecipheriv, randomBytes } from 'node:crypto';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { checkEnvelope, EnvelopeError, macOf, open, openerOf, seal } from './envelope.ts';
import { type Keyring, parseKeyring } from './keyring.ts';

/** Envelopes that `seal` never creates, and what remains in memory. */

afterEach(() => vi.restoreAllMocks());

const ring = parseKeyring(
  JSON.stringify({ primary: 'k1', keys: { k1: randomBytes(32).toString('base64url') } }),
);
const about = { purpose: 'test.record', context: { a: 1 } } as const;
const plaintext = Buffer.from('plain');
const { kid, jwe } = await seal(ring, { ...about, plaintext });
const [sealed = '', , iv = '', ciphertext = '', tag = ''] = jwe.split('.');
const header = JSON.parse(Buffer.from(sealed, 'base64url').toString()) as { readonly salt: string };
const encoded = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');

const thrownBy = (act: () => unknown): unknown => {
  try {
    act();
    return 'nothing';
  } catch (error) {
    return error;
  }
};
const refused = (...parts: readonly string[]) =>
  (thrownBy(() => checkEnvelope({ kid, jwe: parts.join('.') }, about)) as { code?: string }).code;

describe('an envelope is malformed', () => {
  it('unless it has its five parts in their lengths', () => {
    expect(refused(sealed, '', iv, ciphertext, tag)).toBeUndefined();
    for (const parts of [
      [sealed, '', iv, ciphertext],
      [sealed, '', iv, ciphertext, tag, ''],
      [sealed, 'AAAA', iv, ciphertext, tag],
      [sealed, '', iv.slice(4), ciphertext, tag],
      [sealed, '', `${iv}AAAA`, ciphertext, tag],
      [sealed, '', iv, ciphertext, tag.slice(0, 16)],
      [sealed, '', iv, ciphertext, `${tag.slice(0, 20)}AAAA`],
      [sealed, '', iv, 'AAAA'.repeat(4_096), tag],
    ])
      expect(refused(...parts), parts.join('.')).toBe('malformed');
  });

  it('if one of its parts is spelled in another alphabet', () => {
    for (const parts of [
      [sealed, '', `+${iv.slice(1)}`, ciphertext, tag],
      [sealed, '', iv, '+AAA', tag],
      [sealed, '', iv, ciphertext, `+${tag.slice(1)}`],
    ])
      expect(refused(...parts)).toBe('malformed');
  });

  it.each([
    ['none', undefined],
    ['a number', 1],
    ['a list', [header.salt]],
    ['too short', header.salt.slice(1)],
    ['with something in front', ` ${header.salt}`],
    ['with something behind', `${header.salt}=`],
  ])('if its salt is invalid: %s', (_, salt) => {
    expect(refused(encoded({ ...header, salt }), '', iv, ciphertext, tag)).toBe('malformed');
  });

  it('if its header is not an object, with a reason', () => {
    expect(refused(encoded(null), '', iv, ciphertext, tag)).toBe('malformed');
    const text = Buffer.from('{{{').toString('base64url');
    const error = thrownBy(() =>
      checkEnvelope({ kid, jwe: [text, '', iv, ciphertext, tag].join('.') }, about),
    );
    expect(error).toMatchObject({ code: 'malformed', cause: expect.any(SyntaxError) });
  });
});

it('an envelope may have 16 KiB, and no more', async () => {
  // What a purpose adds decides which lengths base64 can reach.
  const lengths: number[] = [];
  for (const purpose of ['test.a', 'test.ab', 'test.abc'] as const) {
    const empty = await seal(ring, { purpose, context: {}, plaintext: Buffer.alloc(0) });
    const room = 16 * 1_024 - empty.jwe.length;
    const bytes = Math.floor((room * 3) / 4);
    const full = await seal(ring, { purpose, context: {}, plaintext: Buffer.alloc(bytes, 1) });
    lengths.push(full.jwe.length);
    const opened = await open(ring, full, { purpose, context: {} });
    expect(opened.reveal()).toHaveLength(bytes);
    const more = seal(ring, { purpose, context: {}, plaintext: Buffer.alloc(bytes + 1, 1) });
    await expect(more).rejects.toThrow('too large for an envelope');
  }
  expect(lengths).toContain(16 * 1_024);
});

describe('in memory', () => {
  it('no derived key remains after sealing, opening, or a MAC', async () => {
    const derived: Buffer[] = [];
    const watched: Keyring = {
      ...ring,
      derive(...words) {
        const key = ring.derive(...words)!;
        expect(key.some((byte) => byte !== 0)).toBe(true);
        derived.push(key);
        return key;
      },
    };
    const envelope = await seal(watched, { ...about, plaintext });
    expect((await open(watched, envelope, about)).reveal().toString()).toBe('plain');
    macOf(watched, kid, 'test.head', ['a']);
    expect(derived.map((key) => key.every((byte) => byte === 0))).toEqual([true, true, true]);
  });

  it('no plaintext remains of an envelope whose tag is wrong', () => {
    const decipher = createDecipheriv('aes-256-gcm', randomBytes(32), randomBytes(12));
    const update = vi.spyOn(Object.getPrototypeOf(decipher) as typeof decipher, 'update');
    const wrong = Buffer.alloc(16).toString('base64url');
    const opener = openerOf({ kid, jwe: [sealed, '', iv, ciphertext, wrong].join('.') }, about);
    expect(() => opener.open(ring)).toThrow('tampered');
    const [result] = update.mock.results;
    expect(result?.value).toEqual(Buffer.alloc(plaintext.length));
  });
});

it('a ring without the key creates no envelope and no MAC', async () => {
  const without: Keyring = { primary: 'k9', has: () => false, derive: () => undefined };
  const sealing = seal(without, { ...about, plaintext });
  await expect(sealing).rejects.toMatchObject({ name: 'EnvelopeError', code: 'unknown_key' });
  const mac = thrownBy(() => macOf(ring, 'k9', 'test.head', ['a']));
  expect(mac).toBeInstanceOf(EnvelopeError);
  expect(mac).toMatchObject({ code: 'unknown_key' });
});

it('a MAC is over bytes: text counts as its UTF-8', () => {
  expect(macOf(ring, kid, 'test.head', ['jürgen'])).toEqual(
    macOf(ring, kid, 'test.head', [Buffer.from('jürgen')]),
  );
});
