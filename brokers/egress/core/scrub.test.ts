import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { scrubberOf } from './scrub.ts';

const VALUE = `sk_live/4+eC39<Hq"Ly~jW?da'r%jt&Dc`;
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
  'JSON of Go': (value) =>
    JSON.stringify(value).replace(/[<>&]/g, (c) => `\\u00${c.charCodeAt(0).toString(16)}`),
  'JSON of PHP': (value) =>
    JSON.stringify(value)
      .replaceAll('/', '\\/')
      .replace(/[<>&']/g, (c) => `\\u00${c.charCodeAt(0).toString(16).toUpperCase()}`),
  HTML: (value) => entities(value, '&quot;', '&#x27;'),
  'HTML of Go': (value) => entities(value, '&#34;', '&#39;'),
  XML: (value) => entities(value, '&quot;', '&apos;'),
  hex: (value) => Buffer.from(value).toString('hex'),
  'hex, capitals': (value) => Buffer.from(value).toString('hex').toUpperCase(),
};

function entities(value: string, quote: string, apostrophe: string): string {
  const text = value.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
  return text.replaceAll('"', quote).replaceAll("'", apostrophe);
}

/**
 * Whether eight characters of the encoded value are still in a text. The ends of a base64 text share a character with
 * their neighbours: up to three of them are not the value's alone.
 */
function leaks(text: string, encoded: string): boolean {
  return Array.from({ length: encoded.length - 7 }, (_, at) => encoded.slice(at, at + 8)).some((part) =>
    text.includes(part),
  );
}

const run = (pieces: readonly string[], value = VALUE) => {
  const scrub = scrubberOf(value).body();
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
        expect([at, leaks(seen, encoded)]).toEqual([at, false]);
      }
      expect(run([...body])).toHaveLength(body.length);
      expect(leaks(run([...body]), encoded)).toBe(false);
    });
  }

  it('hides a value wherever it lies in a long body, and at every border of a part of it', () => {
    const part = 1_024;
    const filler = Buffer.alloc(3 * part, 'sk_live/');
    for (const encode of Object.values(ENCODINGS)) {
      const encoded = encode(VALUE);
      for (let before = 0; before <= encoded.length; before++) {
        const body = Buffer.from(filler);
        body.write(encoded, part - before, 'latin1');
        const scrub = scrubberOf(VALUE).body();
        const pieces = [0, 1, 2].map((index) => scrub.push(body.subarray(index * part, (index + 1) * part)));
        const seen = Buffer.concat([...pieces, scrub.end()]);
        expect(seen).toHaveLength(body.length);
        const around = seen.toString('latin1', part - before, part - before + encoded.length);
        expect([before, leaks(around, encoded)]).toEqual([before, false]);
      }
    }
  });

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
    const scrub = scrubberOf(VALUE).body();
    expect(scrub.push(Buffer.from('data: {"price": 1}\n\n')).toString()).toBe('data: {"price": 1}\n\n');
    expect(scrub.push(Buffer.from(`data: ${VALUE.slice(0, 5)}`)).toString()).toBe('data: ');
    expect(scrub.push(Buffer.from('!\n\n')).toString()).toBe(`${VALUE.slice(0, 5)}!\n\n`);
  });

  it('leaves the sender’s buffer as it was', () => {
    const sent = Buffer.from(VALUE);
    scrubberOf(VALUE).body().push(sent);
    expect(sent.toString()).toBe(VALUE);
  });

  it('hides a value in a header, and a short one too', () => {
    expect(scrubberOf(VALUE).text(`https://x/?k=${VALUE}&y=1`)).toBe(`https://x/?k=${stars(VALUE)}&y=1`);
    expect(scrubberOf('1234').text('pin=1234;')).toBe('pin=****;');
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
