import { createHash, randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { CompactEncrypt } from 'jose';
import { describe, expect, it } from 'vitest';
import {
  checkEnvelope,
  type Envelope,
  type EnvelopeContext,
  macOf,
  open,
  openerOf,
  seal,
} from './envelope.ts';
import { parseKeyring } from './keyring.ts';

const keys = { k1: randomBytes(32).toString('base64url'), k2: randomBytes(32).toString('base64url') };
const old = parseKeyring(JSON.stringify({ primary: 'k1', keys: { k1: keys.k1 } }));
const ring = parseKeyring(JSON.stringify({ primary: 'k2', keys }));
const purpose = 'test.record';

const value = fc.oneof(
  fc.string({ unit: 'grapheme', maxLength: 40 }),
  fc.maxSafeInteger(),
  fc.constant(null),
);
const context = fc.dictionary(fc.stringMatching(/^[a-z_]{1,12}$/), value, { minKeys: 1, maxKeys: 8 });
const plaintext = fc.uint8Array({ minLength: 1, maxLength: 400 });

/** The code with which it is refused. */
async function refused(
  envelope: Envelope,
  about: { purpose: `${string}.${string}`; context: EnvelopeContext },
) {
  return open(ring, envelope, about).then(
    () => 'opened',
    (error: { code?: string }) => error.code,
  );
}

describe('an envelope', () => {
  it('opens to what was sealed, whatever the order of the context, with an older key too', async () => {
    await fc.assert(
      fc.asyncProperty(context, plaintext, fc.boolean(), async (about, bytes, older) => {
        const envelope = await seal(older ? old : ring, { purpose, context: about, plaintext: bytes });
        expect(envelope.kid).toBe(older ? 'k1' : 'k2');
        const reversed = Object.fromEntries(Object.entries(about).reverse());
        const opened = await open(ring, envelope, { purpose, context: reversed });
        expect(opened.reveal().equals(bytes)).toBe(true);
      }),
      { numRuns: 100 },
    );
  });

  it('never has the same key, IV or text twice', async () => {
    const sealing = { purpose, context: { a: 1 }, plaintext: Buffer.from('same') } as const;
    const [one, two] = [await seal(ring, sealing), await seal(ring, sealing)];
    one.jwe.split('.').forEach((part, i) => {
      if (i !== 1) expect(part).not.toBe(two.jwe.split('.')[i]);
    });
  });

  it('does not open for a context that differs in any field', async () => {
    await fc.assert(
      fc.asyncProperty(context, value, fc.nat(), async (about, other, at) => {
        const envelope = await seal(ring, { purpose, context: about, plaintext: Buffer.from('x') });
        const names = Object.keys(about);
        const name = names[at % names.length]!;
        fc.pre(JSON.stringify(other) !== JSON.stringify(about[name]));
        const { [name]: _, ...fewer } = about;
        expect(await refused(envelope, { purpose, context: { ...about, [name]: other } })).toBe(
          'other_context',
        );
        expect(await refused(envelope, { purpose, context: fewer })).toBe('other_context');
        expect(await refused(envelope, { purpose, context: { ...about, more: null } })).toBe('other_context');
        expect(await refused(envelope, { purpose: 'test.other', context: about })).toBe('other_context');
        expect(() => checkEnvelope(envelope, { purpose, context: fewer })).toThrow('other_context');
      }),
      { numRuns: 60 },
    );
  });

  it('does not open when one character of it was changed, removed or added', async () => {
    const about = { purpose, context: { capsule: 'home', generation: 3 } } as const;
    const { kid, jwe } = await seal(ring, { ...about, plaintext: randomBytes(120) });
    const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.=+/ \n';
    const change = fc.record({
      at: fc.nat(jwe.length - 1),
      to: fc.constantFrom(...alphabet),
      how: fc.nat(2),
    });
    await fc.assert(
      fc.asyncProperty(change, async ({ at, to, how }) => {
        const rest = jwe.slice(at + (how === 2 ? 0 : 1));
        const mutated = jwe.slice(0, at) + (how === 0 ? '' : to) + rest;
        fc.pre(mutated !== jwe);
        expect(await refused({ kid, jwe: mutated }, about)).toMatch(/^(?:malformed|other_context|tampered)$/);
      }),
      { numRuns: 1_500 },
    );
  });

  it('does not open in another spelling of the same bytes', async () => {
    const about = { purpose, context: {} } as const;
    const { kid, jwe } = await seal(ring, { ...about, plaintext: Buffer.from('spelling') });
    const last = jwe.at(-1)!;
    const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
    // The tag's last character carries two bits; the other four are spare.
    const twin = alphabet[alphabet.indexOf(last) ^ 1]!;
    expect(Buffer.from(jwe.slice(-22, -1) + twin, 'base64url')).toEqual(
      Buffer.from(jwe.slice(-22), 'base64url'),
    );
    expect(await refused({ kid, jwe: jwe.slice(0, -1) + twin }, about)).toBe('malformed');
  });

  it('is not made larger than it may be when it is stored', async () => {
    const sealing = (bytes: number) => ({ purpose, context: {}, plaintext: Buffer.alloc(bytes) }) as const;
    expect(await refused(await seal(ring, sealing(11_000)), { purpose, context: {} })).toBe('opened');
    await expect(seal(ring, sealing(13_000))).rejects.toThrow('too large');
  });

  it('does not open when it is spliced from two', async () => {
    const about = { purpose, context: { a: 1 } } as const;
    const one = await seal(ring, { ...about, plaintext: Buffer.from('one') });
    const two = await seal(ring, { ...about, plaintext: Buffer.from('two') });
    const [a, b] = [one.jwe.split('.'), two.jwe.split('.')];
    for (let mask = 1; mask < 15; mask += 1) {
      const pick = [0, 2, 3, 4].map((part, bit) => ((mask >> bit) & 1 ? b[part] : a[part]));
      const jwe = [pick[0], '', pick[1], pick[2], pick[3]].join('.');
      expect(await refused({ kid: 'k2', jwe }, about)).toBe('tampered');
    }
  });

  it('does not open with another key id, or one that the ring has lost', async () => {
    const about = { purpose, context: { a: 1 } } as const;
    const { kid, jwe } = await seal(ring, { ...about, plaintext: Buffer.from('x') });
    expect(await refused({ kid: 'k1', jwe }, about)).toBe('other_context');
    await expect(open(old, { kid, jwe }, about)).rejects.toMatchObject({ code: 'unknown_key' });
  });

  it('that is opened repeatedly is wiped each time, and uses the key of each ring', async () => {
    const about = { purpose, context: { a: 1 } } as const;
    const opener = openerOf(await seal(old, { ...about, plaintext: Buffer.from('x') }), about);
    for (const keyring of [old, old, ring, old]) {
      const opened = opener.open(keyring).reveal();
      expect(opened.toString()).toBe('x');
      opened.fill(0);
    }
    const without = parseKeyring(JSON.stringify({ primary: 'k2', keys: { k2: keys.k2 } }));
    expect(() => opener.open(without)).toThrow('unknown_key');
    const other = { k1: keys.k2 };
    expect(() => opener.open(parseKeyring(JSON.stringify({ primary: 'k1', keys: other })))).toThrow(
      'tampered',
    );
    expect(opener.open(old).reveal().toString()).toBe('x');
  });

  it('that another program made with another algorithm is not tried', async () => {
    const about = { purpose, context: {} } as const;
    const { jwe } = await seal(ring, { ...about, plaintext: Buffer.from('x') });
    const header = JSON.parse(Buffer.from(jwe.split('.')[0]!, 'base64url').toString());
    for (const enc of ['A128CBC-HS256', 'A256CBC-HS512']) {
      const forged = await new CompactEncrypt(Buffer.from('x'))
        .setProtectedHeader({ ...header, enc })
        .encrypt(randomBytes(enc === 'A128CBC-HS256' ? 32 : 64));
      expect(await refused({ kid: 'k2', jwe: forged }, about)).toMatch(/^(?:malformed|other_context)$/);
    }
  });
});

describe('stored data', () => {
  const key = createHash('sha256').update('golden').digest('base64url');
  const golden = parseKeyring(JSON.stringify({ primary: 'k1', keys: { k1: key } }));

  it('can always be opened: the format, the derivation of keys and their context do not change', async () => {
    const about = {
      purpose: 'test.golden',
      context: { capsule: 'home', generation: 3, set: null },
    } as const;
    const jwe =
      'eyJhbGciOiJkaXIiLCJlbmMiOiJBMjU2R0NNIiwidHlwIjoic3BhY2UtY3VzdG9keSIsImtpZCI6ImsxIiwic2FsdCI6IkNRa0pDUWtKQ1FrSkNRa0pDUWtKQ1FrSkNRa0pDUWtKQ1FrSkNRa0pDUWsiLCJwdXJwb3NlIjoidGVzdC5nb2xkZW4iLCJjb250ZXh0Ijp7ImNhcHN1bGUiOiJob21lIiwiZ2VuZXJhdGlvbiI6Mywic2V0IjpudWxsfX0..MBeCr09r1t0EKvrg.sDJfYZYzQvzFkZKnlMiP.T0CD9OoY7oL1g_Cg06h8sg';
    const opened = await open(golden, { kid: 'k1', jwe }, about);
    expect(opened.reveal().toString()).toBe('as it is stored');
  });

  it('keeps its MAC', () => {
    expect(macOf(golden, 'k1', 'test.golden', ['home', '3']).toString('hex')).toBe(
      '5aa3df5eb732c4f7b2621d25b9a3f4a73b7152cd93fedf31b34f310f4c00e920',
    );
  });
});

it('a MAC tells parts apart that join to the same text, purposes and keys', () => {
  const macs = [
    macOf(ring, 'k2', 'test.head', ['ab', 'c']),
    macOf(ring, 'k2', 'test.head', ['a', 'bc']),
    macOf(ring, 'k2', 'test.head', ['abc']),
    macOf(ring, 'k2', 'test.tail', ['ab', 'c']),
    macOf(ring, 'k1', 'test.head', ['ab', 'c']),
  ];
  expect(new Set(macs.map((mac) => mac.toString('hex'))).size).toBe(5);
  expect(macOf(ring, 'k2', 'test.head', ['ab', Buffer.from('c')])).toEqual(macs[0]);
});
