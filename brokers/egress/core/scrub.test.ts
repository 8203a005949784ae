import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { needlesOf, scrubber, scrubText } from './scrub.ts';

const VALUE = 'sk_live/4+eC39Hq"Ly~jW?dar%jt&Dc';
const stars = (text: string) => '*'.repeat(text.length);

/** The encodings in which an upstream, or what is before it, may send a value back. */
const ENCODINGS: Readonly<Record<string, (value: string) => string>> = {
  raw: (value) => value,
  'with a scheme': (value) => `Bearer ${value}`,
  'base64, first of a group': (value) => Buffer.from(`${value}:x`).toString('base64'),
  'base64, second of a group': (value) => Buffer.from(`u${value}:x`).toString('base64'),
  'base64, third of a group': (value) => Buffer.from(`us${value}`).toString('base64'),
  base64url: (value) => Buffer.from(`user:${value}`).toString('base64url'),
  percent: (value) => encodeURIComponent(value),
  'percent, lower case': (value) => encodeURIComponent(value).replace(/%../g, (code) => code.toLowerCase()),
  'a form': (value) => new URLSearchParams({ v: value }).toString(),
  'percent, everything': (value) =>
    Buffer.from(value)
      .toString('hex')
      .replace(/../g, (pair) => `%${pair.toUpperCase()}`),
  JSON: (value) => JSON.stringify(value),
  'JSON, slashes escaped': (value) => JSON.stringify(value).replaceAll('/', '\\/'),
  hex: (value) => Buffer.from(value).toString('hex'),
  'hex, capitals': (value) => Buffer.from(value).toString('hex').toUpperCase(),
};

/** Longest part of the encoded value that is still in a text. */
function leaked(text: string, encoded: string): number {
  for (let length = encoded.length; length > 0; length--)
    for (let at = 0; at + length <= encoded.length; at++)
      if (text.includes(encoded.slice(at, at + length))) return length;
  return 0;
}

const run = (pieces: readonly string[], value = VALUE) => {
  const scrub = scrubber(needlesOf(value));
  const out = pieces.map((piece) => scrub.push(Buffer.from(piece, 'latin1')));
  return Buffer.concat([...out, scrub.end()]).toString('latin1');
};

describe('the scrubber', () => {
  for (const [name, encode] of Object.entries(ENCODINGS)) {
    it(`hides a value that comes back ${name}, wherever it is split`, () => {
      const encoded = encode(VALUE);
      const body = `{"you sent": ${encoded}, and more}`;
      for (let at = 0; at <= body.length; at++) {
        const seen = run([body.slice(0, at), body.slice(at)]);
        expect(seen.length).toBe(body.length);
        // The ends of a base64 text share a character with their neighbours: up to three of them are not the value's alone.
        expect([at, leaked(seen, encoded) < 8]).toEqual([at, true]);
      }
      expect(run([...body])).toHaveLength(body.length);
      expect(leaked(run([...body]), encoded)).toBeLessThan(8);
    });
  }

  it('changes nothing else, whatever the pieces', () => {
    const text = fc.string({ unit: fc.constantFrom(...VALUE, ' ', 'x', '*'), maxLength: 200 });
    fc.assert(
      fc.property(fc.array(fc.oneof(text, fc.constant(VALUE)), { maxLength: 8 }), (pieces) => {
        const whole = pieces.join('');
        const seen = run(pieces);
        expect(seen).toBe(run([whole]));
        expect(seen).not.toContain(VALUE);
        expect(seen).toHaveLength(whole.length);
        for (let at = 0; at < whole.length; at++) if (seen[at] !== '*') expect(seen[at]).toBe(whole[at]);
      }),
    );
  });

  it('holds nothing back that is not the beginning of a value', () => {
    const scrub = scrubber(needlesOf(VALUE));
    expect(scrub.push(Buffer.from('data: {"price": 1}\n\n')).toString()).toBe('data: {"price": 1}\n\n');
    expect(scrub.push(Buffer.from(`data: ${VALUE.slice(0, 5)}`)).toString()).toBe('data: ');
    expect(scrub.push(Buffer.from('!\n\n')).toString()).toBe(`${VALUE.slice(0, 5)}!\n\n`);
  });

  it('leaves the sender’s buffer as it was', () => {
    const sent = Buffer.from(VALUE);
    scrubber(needlesOf(VALUE)).push(sent);
    expect(sent.toString()).toBe(VALUE);
  });

  it('hides a value in a header, and a short one too', () => {
    expect(scrubText(`https://x/?k=${VALUE}&y=1`, needlesOf(VALUE))).toBe(`https://x/?k=${stars(VALUE)}&y=1`);
    expect(scrubText('pin=1234;', needlesOf('1234'))).toBe('pin=****;');
  });

  it('hides random values in every encoding', () => {
    const value = fc.string({
      unit: fc.integer({ min: 0x21, max: 0x7e }).map((c) => String.fromCharCode(c)),
      minLength: 8,
      maxLength: 64,
    });
    fc.assert(
      fc.property(value, fc.constantFrom(...Object.values(ENCODINGS)), fc.nat(), (secret, encode, cut) => {
        const body = `<<${encode(secret)}>>`;
        const at = cut % body.length;
        const seen = run([body.slice(0, at), body.slice(at)], secret);
        expect(seen).not.toContain(encode(secret));
        expect(seen).not.toContain(secret);
      }),
    );
  });
});
