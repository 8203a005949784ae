import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { contains, parseAddress, parseBlock } from './address.ts';

describe('addresses', () => {
  it.each([
    ['1.2.3.4', [1, 2, 3, 4]],
    ['::', Array(16).fill(0)],
    ['::1', [...Array(15).fill(0), 1]],
    ['::ffff:1.2.3.4', [...Array(10).fill(0), 255, 255, 1, 2, 3, 4]],
    ['2001:db8::5:0', [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0]],
  ])('reads %s', (text, bytes) => {
    expect(parseAddress(text)).toEqual(bytes);
  });

  it.each([
    '0x7f.1',
    '2130706433',
    '0177.0.0.1',
    '127.1',
    '1.2.3.4.',
    ' 1.2.3.4',
    '[::1]',
    'fe80::1%eth0',
    '::1%0',
    '①②⑦.0.0.1',
    '',
    'localhost',
    '1.2.3.4/8',
  ])('refuses %j as an address', (text) => {
    expect(parseAddress(text)).toBeUndefined();
  });

  it('reads every address that it can write', () => {
    const groups = fc.array(fc.integer({ min: 0, max: 0xffff }), { minLength: 8, maxLength: 8 });
    fc.assert(
      fc.property(groups, (values) => {
        const text = values.map((value) => value.toString(16)).join(':');
        expect(parseAddress(text)).toEqual(values.flatMap((value) => [value >> 8, value & 255]));
        const compressed = new URL(`http://[${text}]`).hostname.slice(1, -1);
        expect(parseAddress(compressed)).toEqual(parseAddress(text));
      }),
    );
  });
});

describe('blocks', () => {
  it.each([
    '10.0.0.1/8',
    '10.0.0.0/33',
    '10.0.0.0/-1',
    '10.0.0.0/08',
    '0.0.0.0/-1',
    '10.0.0.0/8x',
    '10.0.0.0/',
    '::1/64',
    '::/129',
    'x/8',
    '10.0.0.0/8/8',
    '::ffff:10.0.0.0/104',
    '::ffff:a00:0/104',
    '::FFFF:10.0.0.1',
    '0:0:0:0:0:ffff:0:0/96',
  ])('refuses %s', (text) => {
    expect(parseBlock(text)).toBeUndefined();
  });

  it('may be a single address, with or without its length', () => {
    for (const text of ['10.0.0.1', '10.0.0.1/32'])
      expect(parseBlock(text)).toEqual({ bytes: [10, 0, 0, 1], bits: 32 });
    for (const text of ['::1', '::1/128'])
      expect(parseBlock(text)).toEqual({ bytes: [...Array(15).fill(0), 1], bits: 128 });
  });

  it('contain no address of the other family', () => {
    const [v4, v6] = [parseBlock('0.0.0.0/0')!, parseBlock('::/0')!];
    expect([contains(v4, [1, 2, 3, 4]), contains(v6, Array(16).fill(1))]).toEqual([true, true]);
    expect([contains(v4, Array(16).fill(1)), contains(v6, [1, 2, 3, 4])]).toEqual([false, false]);
  });

  it('contain exactly the addresses with their prefix', () => {
    const octets = fc.array(fc.integer({ min: 0, max: 255 }), { minLength: 4, maxLength: 4 });
    fc.assert(
      fc.property(octets, octets, fc.integer({ min: 0, max: 32 }), (base, other, bits) => {
        const number = ([a = 0, b = 0, c = 0, d = 0]: number[]) =>
          ((a << 24) | (b << 16) | (c << 8) | d) >>> 0;
        const mask = bits === 0 ? 0 : (0xffffffff << (32 - bits)) >>> 0;
        const network = (number(base) & mask) >>> 0;
        const bytes = [24, 16, 8, 0].map((shift) => (network >>> shift) & 255);
        const block = parseBlock(`${bytes.join('.')}/${bits}`);
        expect(block && contains(block, other)).toBe((number(other) & mask) >>> 0 === network);
      }),
    );
  });
});
