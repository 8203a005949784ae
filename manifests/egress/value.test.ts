import { describe, expect, it, vi } from 'vitest';
import { basicPairOf, secretOfPair, valueFault } from './value.ts';

const basic = (pair: string, encoding: BufferEncoding = 'utf8') =>
  Buffer.from(pair, encoding).toString('base64');

describe('a value', () => {
  it.each([
    'sk_live_4eC39HqLyjWDarjtT1zdp7dc',
    'k3yforapi',
    'abcdefghi',
    '1234567890123',
    'Tr0ub4dor',
    'ABCDEFGHI',
    // Exactly as many bits as are needed, and as many letters.
    '!"#$%&()',
    'abcdeabcde',
    'x'.repeat(4_090).concat('abcdef'),
  ])('%s is hard enough to guess', (value) => {
    expect(valueFault({}, value)).toBeUndefined();
  });

  it.each([
    ['short', 'Aa1!xyz'],
    ['of eight small letters', 'abcdefgh'],
    ['of eight capital letters', 'ABCDEFGH'],
    ['of twelve digits', '123456789012'],
    ['of one letter', 'a'.repeat(4_096)],
    ['of four letters', 'abcd'.repeat(10)],
  ])('that is %s is too easy to guess', (_, value) => {
    expect(valueFault({}, value)).toContain('too easy to guess');
  });

  it.each(['', ' secretsecret1', 'secret\nsecret1', 'geheimnisüberall1', 'x1'.repeat(2_049)])(
    '%j is not allowed in a request',
    (value) => {
      expect(valueFault({}, value)).toContain('visible ASCII');
    },
  );

  it('for the scheme Basic is validated by its content, not by its encoding', () => {
    expect(valueFault({ scheme: 'Basic' }, basic('ledger:hunter2hunter'))).toBeUndefined();
    expect(valueFault({ scheme: 'bASIC' }, basic('ledger-of-everybody:pw'))).toContain('too easy');
    // A key as the user, and no password.
    expect(valueFault({ scheme: 'Basic' }, basic('sk_live_4eC39HqLyjWD:'))).toBeUndefined();
    expect(valueFault({ scheme: 'Basic' }, 'ledger:hunter2hunter')).toContain('base64');
    expect(valueFault({ scheme: 'Basic' }, basic('no colon in it'))).toContain('base64');
    expect(valueFault({ scheme: 'Basic' }, basic('a:line\nbreak1234'))).toContain('base64');
    expect(valueFault({ scheme: 'Bearer' }, 'ledger:hunter2hunter')).toBeUndefined();
  });
});

it('a pair of the scheme Basic is read in any encoding of characters', () => {
  expect(basicPairOf({ scheme: 'Basic' }, basic('jürgen:pass wörd'))).toBe('jürgen:pass wörd');
  expect(basicPairOf({ scheme: 'Basic' }, basic('j\u00fcrgen:w\u00f6rter', 'latin1'))).toBe('jürgen:wörter');
  expect(basicPairOf({ scheme: 'Bearer' }, basic('user:word'))).toBeUndefined();
  expect([secretOfPair('user:pass:word'), secretOfPair('key:')]).toEqual(['pass:word', 'key']);
});

it('text that is not completely base64 is not a pair, and a byte order mark stays', () => {
  const pair = basic('user:password1');
  for (const value of [`,${pair}`, `${pair},`, `${pair}===`, ''])
    expect(basicPairOf({ scheme: 'Basic' }, value)).toBeUndefined();
  expect(basicPairOf({ scheme: 'Basic' }, basic('\ufeffuser:word'))).toBe('\ufeffuser:word');
});

it('the bytes of a pair are wiped once it is read', () => {
  const read = vi.spyOn(Buffer, 'from');
  basicPairOf({ scheme: 'Basic' }, 'dXNlcjpwYXNzd29yZDE=');
  const [bytes] = read.mock.results.map(({ value }) => value as Buffer);
  read.mockRestore();
  expect(bytes).toEqual(Buffer.alloc(14));
});
