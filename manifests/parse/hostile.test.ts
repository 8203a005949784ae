import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { canonicalJson, checkManifest, manifestDigest, parseManifest, STORAGE_LIMIT } from '../index.ts';
import { manifest } from '../rules/manifest.ts';
import { accepted } from '../testing/arbitrary.ts';
import { largestManifest, sampleManifest } from '../testing/samples.ts';

const valid = JSON.stringify(sampleManifest({ inputs: 1, routes: 1 }));
const rules = (input: string | Uint8Array) => {
  const result = parseManifest(input);
  return result.ok ? [] : result.errors.map(({ pointer, rule }) => `${pointer} ${rule}`);
};
const bytes = (text: string, encoding: BufferEncoding = 'utf8') => Buffer.from(text, encoding);

describe('text that is not strict JSON', () => {
  const cases: readonly (readonly [string, string | Uint8Array, string])[] = [
    ['nothing', '', ' json'],
    ['white space', ' \n', ' json'],
    ['a text cut off', valid.slice(0, valid.indexOf('github') + 20), '/platform/github json'],
    ['two documents', `${valid}\n${valid}`, ' json'],
    ['something after the end', `${valid}]`, ' json'],
    ['UTF-16', bytes(`\ufeff${valid}`, 'utf16le'), ' encoding'],
    ['UTF-16 without a mark', bytes(valid, 'utf16le'), ' encoding'],
    ['a byte order mark', `\ufeff${valid}`, ' encoding'],
    ['a byte order mark in bytes', bytes(`\ufeff${valid}`), ' encoding'],
    [
      'bytes that are not UTF-8',
      Buffer.concat([bytes('"'), Buffer.from([0xc3, 0x28]), bytes('"')]),
      ' encoding',
    ],
    ['an overlong encoding', Buffer.from([0x22, 0xc0, 0xaf, 0x22]), ' encoding'],
    ['half of a surrogate pair', '"\ud800"', ' unicode'],
    ['half of an escaped pair', valid.replace('"Ledger"', '"\\ud800"'), '/platform/name unicode'],
    ['a comment', `/* x */${valid}`, ' json'],
    ['a comma at the end', valid.replace(/\}$/, ',}'), ' json'],
    ['single quotes', "{'a':1}", ' json'],
    ['a bare key', '{a:1}', ' json'],
    ['a line break in a string', '{"a":"x\ny"}', '/a json'],
    ['an unknown escape', '{"a":"\\x"}', '/a json'],
    ['a leading zero', '{"a":01}', ' json'],
    ['NaN', '{"a":NaN}', '/a json'],
    ['a plus sign', '{"a":+1}', '/a json'],
    ['a broken word', '{"a":tru}', '/a json'],
    ['a missing colon', '{"a" 1}', '/a json'],
    ['a missing comma', '["a" "b"]', ' json'],
    ['no end', '{"a":1', ' json'],
  ];
  for (const [name, input, wanted] of cases) {
    it(`is refused: ${name}`, () => expect(rules(input)[0]).toBe(wanted));
  }

  it('is refused with its line and column', () => {
    const result = parseManifest('{\n  "a": tru\n}');
    expect(result.ok ? '' : result.errors[0]?.message).toBe(
      'must have true or another JSON value here (line 2, column 8)',
    );
  });
});

describe('keys that JSON parsers treat differently', () => {
  it('refuses a duplicate key, wherever it is, and reports the other errors too', () => {
    expect(rules(valid.replace('"id":"ledger"', '"id":"ledger","id":"Evil"'))).toEqual([
      '/platform/id duplicate-key',
    ]);
    expect(rules(valid.replace('"id":"ledger"', '"id":"ledger","\\u0069d":"evil"'))).toEqual([
      '/platform/id duplicate-key',
    ]);
    expect(rules(valid.replace('"spec":1', '"spec":2').replace(/\}$/, ',"network":{}}'))).toEqual([
      '/network duplicate-key',
      '/platform/spec number',
    ]);
  });

  it('refuses __proto__ anywhere, as text and as a value', () => {
    for (const place of [
      '"platform":{',
      '"network":{',
      '"integrations":{',
      '"stored_inputs":{',
      '"bank-0":{',
    ]) {
      const text = valid.replace(place, `${place}"__proto__":{"scopes":["a"]},`);
      expect(rules(text).map((one) => one.split(' ')[1])).toEqual(['forbidden-key']);
      expect(checkManifest(JSON.parse(text)).ok).toBe(false);
    }
  });

  it('treats constructor as a key if keys are data, and as unknown if they are not', () => {
    const value = sampleManifest();
    expect(checkManifest({ ...value, integrations: { constructor: { scopes: ['a'] } } }).ok).toBe(true);
    expect(checkManifest({ ...value, constructor: 1 }).ok).toBe(false);
    expect(checkManifest({ ...value, toString: 1 }).ok).toBe(false);
  });
});

describe('sizes', () => {
  const ofSize = (size: number) => {
    const largest = largestManifest();
    const room = size - Buffer.byteLength(JSON.stringify(largest)) + 1;
    return { ...largest, platform: { ...largest.platform, genesis: 'x'.repeat(room) } };
  };

  it('accepts what can be stored and refuses one byte more', () => {
    expect(Buffer.byteLength(canonicalJson(ofSize(STORAGE_LIMIT)))).toBe(STORAGE_LIMIT);
    expect(checkManifest(ofSize(STORAGE_LIMIT)).ok).toBe(true);
    const result = checkManifest(ofSize(STORAGE_LIMIT + 1));
    expect(result.ok ? [] : result.errors).toEqual([
      {
        pointer: '',
        rule: 'storage-size',
        message:
          'must be at most 1000000 bytes of canonical JSON, which is what can be stored; found 1000001',
      },
    ]);
  });

  it('counts bytes, not characters', () => {
    const wide = ofSize(STORAGE_LIMIT);
    const genesis = '🪙'.repeat(wide.platform.genesis.length);
    const result = checkManifest({ ...wide, platform: { ...wide.platform, genesis } });
    expect(result.ok ? '' : result.errors[0]?.rule).toBe('storage-size');
  });

  it('gives the same canonical text and digest to equal manifests', () => {
    fc.assert(
      fc.property(accepted(manifest), (value) => {
        const reversed = JSON.parse(JSON.stringify(value), (_, member) =>
          typeof member === 'object' && member !== null && !Array.isArray(member)
            ? Object.fromEntries(Object.entries(member).reverse())
            : member,
        );
        expect(canonicalJson(reversed)).toBe(canonicalJson(value));
        expect(manifestDigest(reversed)).toBe(manifestDigest(value));
        expect(JSON.parse(canonicalJson(value))).toEqual(value);
      }),
      { numRuns: 100 },
    );
  });
});

describe('no input of 1 MiB takes long', () => {
  const SIZE = 1_048_576;
  const processorTime = () => {
    const { user, system } = process.threadCpuUsage();
    return (user + system) / 1000;
  };
  const fill = (piece: string, frame = (inner: string) => inner) =>
    frame(piece.repeat(Math.floor((SIZE - 4096) / Buffer.byteLength(piece))));
  const at = (pointer: string, text: string) => {
    const value = structuredClone(sampleManifest({ inputs: 1, routes: 1 })) as unknown as Record<
      string,
      unknown
    >;
    const path = pointer.split('/').slice(1);
    const last = path.pop() ?? '';
    const node = path.reduce((inner, key) => inner[key] as Record<string, unknown>, value);
    node[last] = '@@';
    return JSON.stringify(value).replace('"@@"', () => text);
  };
  const string = (piece: string, head = '') => fill(piece, (inner) => `"${head}${inner}"`);
  const largest = largestManifest();
  const inputs: Record<string, string> = {
    'the largest manifest': JSON.stringify(largest),
    'the largest manifest, all wrong': JSON.stringify(largest).replaceAll('"v', '"!'),
    'open brackets': fill('['),
    'open braces': fill('{"a":'),
    numbers: fill('1,', (inner) => `[${inner}1]`),
    'empty lists': fill('[],', (inner) => `[${inner}1]`),
    escapes: string('\\u0041'),
    'an open string of escapes': fill('\\u0041', (inner) => `"${inner}`),
    spaces: `${valid}${fill(' ')}`,
    digits: fill('9'),
    'unknown properties': `{${Array.from({ length: 80_000 }, (_, i) => `"k${i}":1`).join(',')}}`,
    'unknown properties of a block': at(
      '/platform',
      `{${Array.from({ length: 80_000 }, (_, i) => `"k${i}":1`).join(',')}}`,
    ),
    'many integrations': at(
      '/integrations',
      `{${Array.from({ length: 40_000 }, (_, i) => `"k${i}":{"scopes":1}`).join(',')}}`,
    ),
    'one duplicate key': fill('"a":1,', (inner) => `{${inner}"a":1}`),
    'a host of 1 MiB': at('/network/allowed_hosts', `[${string('a')}]`),
    'many hosts': at(
      '/network/allowed_hosts',
      fill('"a",', (inner) => `[${inner}"a"]`),
    ),
    'a long id': at('/platform/id', string('a-')),
    'a long version': at('/platform/version', string('1', '1.1.')),
    'a long version without an end': at('/platform/version', string('1.')),
    'a long repository': at('/platform/github', string('a-', 'https://github.com/')),
    'a long path': at('/stored_inputs/bank-0/routes/0/path', string('/a')),
    'a long help URL': at('/stored_inputs/bank-0/help_url', string('a.', 'https://')),
    'a genesis of 1 MiB': at('/platform/genesis', string('🪙')),
    'a name of spaces': at('/platform/name', string(' ')),
  };
  const URL = [
    'a.'.repeat(1000),
    'a-'.repeat(1000),
    `a.org/${'%2'.repeat(500)}`,
    `a.org/${'/'.repeat(2000)}`,
    `a.org/${'.'.repeat(2000)}`,
  ];
  for (const [index, rest] of URL.entries())
    inputs[`a help URL of the worst kind ${index}`] = at(
      '/stored_inputs/bank-0/help_url',
      JSON.stringify(`https://${rest}`),
    );

  for (const [name, text] of Object.entries(inputs)) {
    it(`is validated without repeated reading: ${name}`, () => {
      expect(Buffer.byteLength(text)).toBeLessThanOrEqual(SIZE);
      // Work that grows with the square of a MiB takes minutes. The first runs compile the code.
      const times = Array.from({ length: 3 }, () => {
        const before = processorTime();
        parseManifest(text);
        return processorTime() - before;
      });
      expect(Math.min(...times)).toBeLessThan(2_000);
    });
  }

  it('no input makes the parser throw', () => {
    fc.assert(fc.property(fc.string({ unit: 'binary' }), (text) => parseManifest(text).ok === false));
    fc.assert(fc.property(fc.uint8Array(), (input) => parseManifest(input).ok === false));
    fc.assert(fc.property(fc.jsonValue(), (value) => parseManifest(JSON.stringify(value)).ok === false));
    fc.assert(
      fc.property(fc.nat(), fc.string({ maxLength: 3 }), (place, text) => {
        const cut = place % valid.length;
        parseManifest(valid.slice(0, cut) + text + valid.slice(cut + 1));
      }),
    );
    for (const value of [undefined, Symbol('x'), 1n, () => {}, new Date(0), new Map(), Number.NaN]) {
      expect(checkManifest(value).ok).toBe(false);
    }
  });
});
