import { afterEach, describe, expect, it, vi } from 'vitest';
import { type Alphabet, reporting, scrubberOf, scrubbersInTurn } from './scrub.ts';

/** How a body is held back and passed on, and what is left in memory. Encodings are in `scrub.test.ts`. */

afterEach(() => vi.restoreAllMocks());

const VALUE = 'sk_live_4eC39';
const STARS = '*'.repeat(VALUE.length);

/** What comes out at each step; one character a byte. */
const passed = (scrubber: ReturnType<typeof scrubberOf>, ...pieces: readonly string[]) => {
  const body = scrubber.body();
  const out = pieces.map((piece) => body.push(Buffer.from(piece, 'latin1')));
  return [...out, body.end()].map((bytes) => bytes.toString('latin1'));
};

it.each<readonly [Alphabet, (byte: number) => boolean]>([
  ['visible', (byte) => byte >= 0x21 && byte <= 0x7e],
  ['printable', (byte) => byte >= 0x20 && byte !== 0x7f],
])('with a value of %s characters it holds back as many, and no other byte', (alphabet, isHeld) => {
  const scrubber = scrubberOf([VALUE], alphabet);
  for (let byte = 0; byte < 256; byte += 1)
    expect([byte, scrubber.body().push(Buffer.of(byte)).length]).toEqual([byte, isHeld(byte) ? 0 : 1]);
});

it.each([
  ['a short value', ['x'.repeat(170)], 1_023],
  ['a long one', ['x'.repeat(171)], 4_095],
  ['a longer one', ['x'.repeat(683)], 16_383],
  ['the longest of several', ['y', 'x'.repeat(2_731), 'z'], 32_767],
])('holds back as many characters as %s could have, in few steps', (_, values, most) => {
  const body = scrubberOf(values).body();
  expect(body.push(Buffer.alloc(40_000, 'q')).length).toBe(40_000 - most);
  expect(body.end().length).toBe(most);
});

it('refuses to search a value that it could not hold back', () => {
  expect(() => scrubberOf(['x'.repeat(5_462)])).toThrow('a value is too long to be looked for');
});

it('passes on each byte once and in its order, whatever the pieces', () => {
  const word = (length: number) => Array.from({ length }, (_, at) => 'abcdefghij'[at % 10]).join('');
  for (const length of [1, 7, 400, 1_022, 1_023, 1_024, 1_500]) {
    const pieces = [
      word(length),
      ' ',
      word(length),
      word(length),
      word(3),
      `${word(length)}\n`,
      word(length),
    ];
    expect(passed(scrubberOf([VALUE]), ...pieces).join('')).toBe(pieces.join(''));
  }
});

it('replaces a value in one piece, over several, behind text that is held back, and at the end', () => {
  const [half, rest] = [VALUE.slice(0, 5), VALUE.slice(5)];
  const scrubber = scrubberOf([VALUE]);
  expect(passed(scrubber, `a ${VALUE} b `)).toEqual([`a ${STARS} b `, '']);
  expect(passed(scrubber, `a ${half}`, `${rest} b `)).toEqual(['a ', `${STARS} b `, '']);
  expect(passed(scrubber, `word${half}`, rest, '-more')).toEqual(['', '', '', `word${STARS}-more`]);
  expect(passed(scrubber, 'first ', `x${half}`, `${rest}y ${VALUE}`)).toEqual([
    ...['first ', '', `x${STARS}y `],
    STARS,
  ]);
});

it('replaces a value within a run of characters that is longer than what it holds back', () => {
  const long = 'q'.repeat(1_500);
  expect(passed(scrubberOf([VALUE]), long, VALUE, long, ' ').join('')).toBe(`${long}${STARS}${long} `);
});

it('copies nothing and uses no memory for bytes that need not be held back', () => {
  const taken = vi.spyOn(Buffer, 'allocUnsafeSlow');
  const sent = Buffer.from('some words \n');
  const out = scrubberOf([VALUE]).body().push(sent);
  expect(out.buffer).toBe(sent.buffer);
  expect(out.byteOffset).toBe(sent.byteOffset);
  expect(taken).not.toHaveBeenCalled();
});

it('wipes the forms of the value once they can be found, and at the end what it held back', () => {
  const forms = vi.spyOn(Buffer, 'from');
  const scrubber = scrubberOf([VALUE]);
  const copies = forms.mock.results.map(({ value }) => value as Buffer);
  expect(copies.length).toBeGreaterThan(1);
  for (const copy of copies) expect(copy.every((byte) => byte === 0)).toBe(true);
  const taken = vi.spyOn(Buffer, 'allocUnsafeSlow');
  expect(passed(scrubber, VALUE)).toEqual(['', STARS]);
  const [held] = taken.mock.results.map(({ value }) => value as Buffer);
  expect(held?.length).toBeGreaterThan(0);
  expect(held?.every((byte) => byte === 0)).toBe(true);
});

it('a text without a value is unchanged, and one with a value has stars', () => {
  const scrubber = scrubberOf([VALUE]);
  expect(scrubber.text('a text')).toBe('a text');
  expect(scrubber.text(`${VALUE}, ${VALUE}!`)).toBe(`${STARS}, ${STARS}!`);
});

describe('two scrubbers in sequence', () => {
  const [first, second] = ['first-value', 'second-one'];
  const both = () => scrubbersInTurn(scrubberOf([first]), scrubberOf([second]));

  it('replace the values of each, in texts and in bodies, to their end', () => {
    expect(both().text(`${first} ${second}`)).toBe('*********** **********');
    const body = both().body();
    const out = [`${first} ${second} `, `${second}.${first}`].map((text) => body.push(Buffer.from(text)));
    expect(Buffer.concat([...out, body.end()]).toString()).toBe(
      '*********** ********** **********.***********',
    );
  });

  it.each([
    ['neither', 'nothing ', false],
    ['the first', `${first} `, true],
    ['the second', `${second} `, true],
  ])('report whether a body had a value of one of them: %s', (_, text, starred) => {
    const body = both().body();
    body.push(Buffer.from(text));
    expect(body.starred).toBe(starred);
  });
});

describe('the report of a value in an answer', () => {
  const told = () => {
    const onStarred = vi.fn();
    return { onStarred, scrubber: reporting(scrubberOf([VALUE]), onStarred) };
  };

  it('is absent for an answer without one', () => {
    const { onStarred, scrubber } = told();
    expect(scrubber.text('x')).toBe('x');
    const body = scrubber.body();
    expect(body.push(Buffer.from('text ')).toString()).toBe('text ');
    expect(body.end()).toHaveLength(0);
    expect(body.starred).toBe(false);
    expect(onStarred).not.toHaveBeenCalled();
  });

  it('is sent once for a value in a header', () => {
    const { onStarred, scrubber } = told();
    expect(scrubber.text(VALUE)).toBe(STARS);
    expect(onStarred).toHaveBeenCalledOnce();
    scrubber.text(VALUE);
    const body = scrubber.body();
    body.push(Buffer.from(VALUE));
    expect(body.end().toString()).toBe(STARS);
    expect(onStarred).toHaveBeenCalledOnce();
  });

  it('is sent for a value in a body as soon as it is found', () => {
    const { onStarred, scrubber } = told();
    const body = scrubber.body();
    body.push(Buffer.from(VALUE.slice(0, 5)));
    expect(onStarred).not.toHaveBeenCalled();
    body.push(Buffer.from(VALUE.slice(5)));
    expect(onStarred).toHaveBeenCalledOnce();
    expect(body.starred).toBe(true);
  });
});
