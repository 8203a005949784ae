import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { scrubberOf as compiled, prepareScrubber } from './scrub.ts';
import { SLICE } from './slices.ts';

const VALUE = `sk_live/4+eC39<Hq"Ly~jW?da'r%jt&D\`c=`;
const scrubberOf = (value: string) => compiled([value]);
/** Up to two at either end are a neighbour's in part, besides those that are its own and a sign of the end. */
const BASE64 = 8;
const stars = (text: string) => '*'.repeat(text.length);

/**
 * The encodings in which an upstream, or what is before it, may send a value back; and how many characters of such a
 * text are not the value's alone: of a scheme, of quotes, of a form's name, and in base64 of neighbours in a group.
 */
const ENCODINGS: Readonly<Record<string, readonly [encode: (value: string) => string, others: number]>> = {
  raw: [(value) => value, 0],
  'with a scheme': [(value) => `Bearer ${value}`, 7],
  'base64, first of a group': [(value) => Buffer.from(`${value}:x`).toString('base64'), BASE64],
  'base64, second of a group': [(value) => Buffer.from(`u${value}:x`).toString('base64'), BASE64],
  'base64, third of a group': [(value) => Buffer.from(`us${value}`).toString('base64'), BASE64],
  base64url: [(value) => Buffer.from(`user:${value}`).toString('base64url'), BASE64],
  percent: [(value) => encodeURIComponent(value), 0],
  'percent of a URL': [(value) => encodeURI(value), 0],
  'percent, lower case': [
    (value) => encodeURIComponent(value).replace(/%../g, (code) => code.toLowerCase()),
    0,
  ],
  'a form': [(value) => new URLSearchParams({ v: value }).toString(), 2],
  'percent, everything': [
    (value) =>
      Buffer.from(value)
        .toString('hex')
        .replace(/../g, (pair) => `%${pair.toUpperCase()}`),
    0,
  ],
  JSON: [(value) => JSON.stringify(value), 2],
  'JSON, slashes escaped': [(value) => JSON.stringify(value).replaceAll('/', '\\/'), 2],
  'JSON of Go': [
    (value) => JSON.stringify(value).replace(/[<>&]/g, (c) => `\\u00${c.charCodeAt(0).toString(16)}`),
    2,
  ],
  'JSON of PHP': [
    (value) =>
      JSON.stringify(value)
        .replaceAll('/', '\\/')
        .replace(/[<>&']/g, (c) => `\\u00${c.charCodeAt(0).toString(16).toUpperCase()}`),
    2,
  ],
  'JSON of Gson': [(value) => unicode(JSON.stringify(value), /[<>&'=]/g), 2],
  'JSON of .NET': [(value) => capitals(quotesEscaped(value, /[<>&'+`]/g)), 2],
  'JSON of PHP, with quotes': [(value) => capitals(quotesEscaped(value, /[<>&']/g)), 2],
  'JavaScript of Go templates': [(value) => quotesEscaped(value, /[<>&'+`]/g).replaceAll('/', '\\/'), 2],
  HTML: [(value) => entities(value, '&quot;', '&#x27;'), 0],
  'HTML of Go': [(value) => entities(value, '&#34;', '&#39;'), 0],
  XML: [(value) => entities(value, '&quot;', '&apos;'), 0],
  'HTML of Go templates': [(value) => entities(value, '&#34;', '&#39;').replaceAll('+', '&#43;'), 0],
  'HTML of .NET': [
    (value) => entities(value, '&quot;', '&#x27;').replaceAll('+', '&#x2B;').replaceAll('`', '&#x60;'),
    0,
  ],
  'HTML of Handlebars': [
    (value) => entities(value, '&quot;', '&#x27;').replaceAll('=', '&#x3D;').replaceAll('`', '&#x60;'),
    0,
  ],
  'HTML of Mustache': [
    (value) =>
      entities(value, '&quot;', '&#39;')
        .replaceAll('/', '&#x2F;')
        .replaceAll('=', '&#x3D;')
        .replaceAll('`', '&#x60;'),
    0,
  ],
  'HTML of validators': [
    (value) => entities(value, '&quot;', '&#x27;').replaceAll('/', '&#x2F;').replaceAll('`', '&#96;'),
    0,
  ],
  'a URL in a URL': [(value) => encodeURIComponent(encodeURIComponent(value)), 0],
  'a URL in a URL, lower case': [
    (value) => encodeURIComponent(encodeURIComponent(value).replace(/%../g, (code) => code.toLowerCase())),
    0,
  ],
  hex: [(value) => Buffer.from(value).toString('hex'), 0],
  'hex, capitals': [(value) => Buffer.from(value).toString('hex').toUpperCase(), 0],
};

const unicode = (text: string, some: RegExp): string =>
  text.replace(some, (c) => `\\u00${c.charCodeAt(0).toString(16)}`);
const capitals = (text: string): string =>
  text.replace(/\\u([0-9a-f]{4})/g, (_, digits: string) => `\\u${digits.toUpperCase()}`);
/** With its quotes as numbers, too. */
const quotesEscaped = (value: string, some: RegExp): string =>
  `"${unicode(JSON.stringify(value).slice(1, -1).replaceAll('\\"', '\\u0022'), some)}"`;

function entities(value: string, quote: string, apostrophe: string): string {
  const text = value.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
  return text.replaceAll('"', quote).replaceAll("'", apostrophe);
}

/** How many characters of an encoded value can still be read. */
const readable = (text: string): number => text.replaceAll('*', '').length;

const run = (pieces: readonly string[], value = VALUE) => {
  const scrub = scrubberOf(value).body();
  const out = pieces.map((piece) => scrub.push(Buffer.from(piece, 'latin1')));
  return Buffer.concat([...out, scrub.end()]).toString('latin1');
};

describe('the scrubber', () => {
  for (const [name, [encode, others]] of Object.entries(ENCODINGS)) {
    it(`hides a value that is returned ${name}, wherever it is split, and at the end too`, () => {
      const encoded = encode(VALUE);
      for (const [before, behind] of [
        ['{"you sent": ', ', and more}'],
        ['<p>', ''],
        ['', ''],
      ] as const) {
        const body = `${before}${encoded}${behind}`;
        const kept = (seen: string) => {
          expect(seen.length).toBe(body.length);
          expect(seen.startsWith(before) && seen.endsWith(behind)).toBe(true);
          return readable(seen.slice(before.length, before.length + encoded.length));
        };
        const most = kept(run([body]));
        expect(most).toBeLessThanOrEqual(others);
        for (let at = 0; at <= body.length; at++)
          expect([at, kept(run([body.slice(0, at), body.slice(at)]))]).toEqual([at, most]);
        expect(kept(run([...body]))).toBe(most);
      }
    });
  }

  it('hides a value wherever it lies in a long body, and at every border of a part of it', () => {
    const part = 1_024;
    const filler = Buffer.alloc(3 * part, 'sk_live/');
    for (const [encode, others] of Object.values(ENCODINGS)) {
      const encoded = encode(VALUE);
      for (let before = 0; before <= encoded.length; before++) {
        const body = Buffer.from(filler);
        body.write(encoded, part - before, 'latin1');
        const scrub = scrubberOf(VALUE).body();
        const pieces = [0, 1, 2].map((index) => scrub.push(body.subarray(index * part, (index + 1) * part)));
        const seen = Buffer.concat([...pieces, scrub.end()]);
        expect(seen).toHaveLength(body.length);
        const around = seen.toString('latin1', part - before, part - before + encoded.length);
        expect([before, readable(around) <= others]).toEqual([before, true]);
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

  it('replaces two overlapping occurrences, to the end of the longer one', () => {
    const scrub = compiled(['abcdef-1', 'cd', 'bcdef-12345', 'ef-1']);
    for (const cut of [0, 1, 4, 9, 12]) {
      const body = scrub.body();
      const text = '.abcdef-12345.';
      const seen = [text.slice(0, cut), text.slice(cut)].map((piece) => body.push(Buffer.from(piece)));
      expect(Buffer.concat([...seen, body.end()]).toString()).toBe('.************.');
    }
  });

  it('passes on an event at once, since it ends in bytes that no value has', () => {
    const scrub = scrubberOf(VALUE).body();
    expect(scrub.push(Buffer.from('data: {"price": 1}\n\n')).toString()).toBe('data: {"price": 1}\n\n');
    expect(scrub.push(Buffer.from('data: word')).toString()).toBe('data: ');
    expect(scrub.push(Buffer.from('!\n\n')).toString()).toBe('word!\n\n');
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

  it('hides a pair of user and password in every encoding, whatever its letters', () => {
    const pair = 'jürgen:pass wörd/<"€">';
    const scrub = compiled([pair, pair.slice(7)], 'printable');
    const utf8 = Buffer.from(pair, 'utf8');
    for (const [told, text] of [
      ['raw', pair],
      ['hex', utf8.toString('hex')],
      ['base64', utf8.toString('base64')],
      ['percent', encodeURIComponent(pair)],
      ['JSON', JSON.stringify(pair).slice(1, -1)],
      [
        'JSON in ASCII',
        JSON.stringify(pair)
          .slice(1, -1)
          .replace(/[^\0-\x7f]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`),
      ],
    ] as const) {
      const bytes = Buffer.from(text, 'utf8');
      const body = scrub.body();
      const seen = Array.from(bytes, (byte) => body.push(Buffer.of(byte)));
      const all = Buffer.concat([...seen, body.end()]).toString('latin1');
      expect([told, readable(all) <= (told === 'base64' ? 3 : 0)]).toEqual([told, true]);
    }
  });

  it('hides random values in every encoding', () => {
    const value = fc.string({
      unit: fc.integer({ min: 0x21, max: 0x7e }).map((c) => String.fromCharCode(c)),
      minLength: 8,
      maxLength: 64,
    });
    fc.assert(
      fc.property(value, fc.constantFrom(...Object.values(ENCODINGS)), fc.nat(), (secret, [encode], cut) => {
        const body = `<<${encode(secret)}>>`;
        const at = cut % body.length;
        const seen = run([body.slice(0, at), body.slice(at)], secret);
        expect(seen).not.toContain(encode(secret));
        expect(seen).not.toContain(secret);
      }),
    );
  });
});

describe('an observer of the parts of an answer', () => {
  /** Printable, and with more than its share of what is in the values. */
  const piece = (...values: readonly string[]) =>
    fc.string({ unit: fc.constantFrom(...values.join(''), ...' \n"{}:,%=/+abcABC012'), maxLength: 80 });
  const secret = (length: number) =>
    fc.string({
      unit: fc.integer({ min: 0x21, max: 0x7e }).map((code) => String.fromCharCode(code)),
      minLength: length,
      maxLength: length,
    });
  const parts = (values: readonly string[], pieces: readonly string[]): readonly string[] => {
    const body = compiled(values).body();
    return [...pieces.map((one) => body.push(Buffer.from(one, 'latin1'))), body.end()].map(String);
  };

  it('sees the same parts for any value of any length, as long as it is not returned', () => {
    fc.assert(
      fc.property(
        fc
          .tuple(fc.integer({ min: 12, max: 60 }), fc.integer({ min: 12, max: 60 }))
          .chain(([one, other]) => fc.tuple(secret(one), secret(other)))
          .chain(([one, other]) => {
            const beginnings = fc
              .tuple(fc.constantFrom(one, other), fc.nat(11))
              .map(([value, length]) => value.slice(0, length));
            const any = fc.oneof(piece(one, other), beginnings);
            return fc.tuple(fc.constant(one), fc.constant(other), fc.array(any, { maxLength: 30 }));
          }),
        ([one, other, pieces]) => {
          const [first, second] = [parts([one], pieces), parts([other], pieces)];
          fc.pre(!first.join('').includes('*') && !second.join('').includes('*'));
          expect(first).toEqual(second);
        },
      ),
      { numRuns: 500 },
    );
  });

  const GUESSES = Array.from({ length: 94 }, (_, index) => String.fromCharCode(0x21 + index));
  const SECRET = 'sk_live_4eC39HqLyjWDarjtT1zdp7dc';

  /** What is publicly known of values of this kind. */
  const KNOWN = 'sk_live_'.length;

  /** How many more characters an attacker finds by comparing the answers to guesses of the next one. */
  function learned(lookAt: (guess: string) => unknown): number {
    let known = KNOWN;
    while (known < SECRET.length - 1) {
      // The first letter of a value is distinguished from a continuation by its effect elsewhere.
      const differs = (letter: string) =>
        JSON.stringify(lookAt(`${SECRET.slice(0, known)}${letter}`)) !==
        JSON.stringify(lookAt(`${'~'.repeat(known)}${letter}`));
      const odd = GUESSES.filter(differs);
      if (odd.length !== 1 || odd[0] !== SECRET[known]) break;
      known += 1;
    }
    return known - KNOWN;
  }

  it('learns no character of it from a server that echoes at once', () => {
    expect(learned((guess) => compiled([SECRET]).body().push(Buffer.from(guess)).length)).toBe(0);
    expect(
      learned(
        (guess) =>
          compiled([SECRET])
            .body()
            .push(Buffer.from(`x ${guess}`)).length,
      ),
    ).toBe(0);
    // One request, in which a line break releases the whole earlier guess.
    const body = compiled([SECRET]).body();
    expect(learned((guess) => body.push(Buffer.from(`\n${guess}`)).length - guess.length)).toBe(0);
  });

  it('learns no character of it from a server that answers in parts of 2,048 bytes', () => {
    const sizes = (guess: string) => {
      const body = compiled([SECRET]).body();
      const text = Buffer.alloc(3 * 2_048, 'x y ');
      text.write(guess, 2_048 - guess.length, 'latin1');
      const chunks = [0, 1, 2].map((index) => body.push(text.subarray(index * 2_048, (index + 1) * 2_048)));
      return [...chunks.map(({ length }) => length), body.end().length];
    };
    expect(learned(sizes)).toBe(0);
  });

  it('waits for a run of characters no longer than a value of its kind could be', () => {
    for (const [value, most] of [
      ['x'.repeat(20), 1_023],
      ['x'.repeat(170), 1_023],
      ['"'.repeat(171), 4_095],
      ['x'.repeat(4_096), 32_767],
    ] as const) {
      const body = scrubberOf(value).body();
      const long = Buffer.alloc(40_000, 'y');
      expect(body.push(long).length).toBe(long.length - most);
      expect(body.push(Buffer.from('y')).length).toBe(1);
      expect(body.push(Buffer.from(' ')).length).toBe(most + 1);
      expect(body.end().length).toBe(0);
    }
  });
});

it('a scrubber costs a bounded number of bytes for each character of its value', () => {
  const visible = Array.from({ length: 94 }, (_, index) => String.fromCharCode(0x21 + index)).join('');
  for (const value of ['a'.repeat(4_096), visible.repeat(43).slice(0, 4_096), 'ab'.repeat(2_048)])
    expect(scrubberOf(value).bytes / value.length).toBeLessThan(1_600);
});

it.each([
  ['of what every encoder writes in another way', '"<&\'>'.repeat(819)],
  [
    'of all visible characters',
    Array.from({ length: 4_096 }, (_, at) => String.fromCharCode(0x21 + (at % 94))).join(''),
  ],
  ['of one letter', '"'.repeat(4_096)],
  ['of few letters', 'ab"'.repeat(1_365)],
])('a value %s is prepared in slices of so many steps', (_, value) => {
  const slices = prepareScrubber([value]);
  let steps = 0;
  for (let slice = slices.next(); !slice.done; slice = slices.next()) {
    // The longest form, or the row of a state, is written in one go.
    expect(slice.value).toBeLessThan(1.5 * SLICE);
    steps += slice.value;
  }
  // Each character of a form is written, made a state, and its row is put together, laid and filled.
  expect(steps).toBeGreaterThan(8 * 4 * value.length);
});
