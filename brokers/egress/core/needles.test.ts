import { afterEach, expect, it, vi } from 'vitest';
import { needlesOf } from './needles.ts';
import { atOnce, Pace, SLICE } from './slices.ts';

afterEach(() => vi.restoreAllMocks());

const needlesFor = (...values: readonly string[]) => atOnce(needlesOf(values, new Pace()));
/** One character for each byte. */
const textsFor = (...values: readonly string[]) =>
  needlesFor(...values).map((needle) => Buffer.from(needle).toString('latin1'));

const VALUE = 'k"l\'m<n&o\\p/q+r=s`t';

it.each([
  ['itself', VALUE],
  ['percent-encoded bytes', '%6b%22%6c%27%6d%3c%6e%26%6f%5c%70%2f%71%2b%72%3d%73%60%74'],
  ['percent-encoded bytes in capitals', '%6B%22%6C%27%6D%3C%6E%26%6F%5C%70%2F%71%2B%72%3D%73%60%74'],
  ['hex', '6b226c276d3c6e266f5c702f712b723d736074'],
  ['hex in capitals', '6B226C276D3C6E266F5C702F712B723D736074'],
  ['a part of a URL', "k%22l'm%3Cn%26o%5Cp%2Fq%2Br%3Ds%60t"],
  ['a part of a URL, after RFC 3986', 'k%22l%27m%3Cn%26o%5Cp%2Fq%2Br%3Ds%60t'],
  ['a part of a URL in small letters', "k%22l'm%3cn%26o%5cp%2fq%2br%3ds%60t"],
  ['a part of a URL in a URL', "k%2522l'm%253Cn%2526o%255Cp%252Fq%252Br%253Ds%2560t"],
  ['a URL', "k%22l'm%3Cn&o%5Cp/q+r=s%60t"],
  ['JSON', 'k\\"l\'m<n&o\\\\p/q+r=s`t'],
  ['JSON with its slashes escaped', 'k\\"l\'m<n&o\\\\p\\/q+r=s`t'],
  ['JSON of Go', 'k\\"l\'m\\u003cn\\u0026o\\\\p/q+r=s`t'],
  ['JSON of Go in capitals', 'k\\"l\'m\\u003Cn\\u0026o\\\\p/q+r=s`t'],
  ['JSON of PHP', 'k\\"l\\u0027m\\u003Cn\\u0026o\\\\p\\/q+r=s`t'],
  ['JSON of PHP with its quotes', 'k\\u0022l\\u0027m\\u003Cn\\u0026o\\\\p\\/q+r=s`t'],
  ['JSON of Gson', 'k\\"l\\u0027m\\u003cn\\u0026o\\\\p/q+r\\u003ds`t'],
  ['JSON of .NET', 'k\\u0022l\\u0027m\\u003Cn\\u0026o\\\\p/q\\u002Br=s\\u0060t'],
  ...['&quot;', '&#34;'].flatMap((quote) =>
    ["'", '&#39;', '&#039;', '&#x27;', '&apos;'].map((apostrophe): [string, string] => [
      `HTML with ${quote} and ${apostrophe}`,
      `k${quote}l${apostrophe}m&lt;n&amp;o\\p/q+r=s\`t`,
    ]),
  ),
  ['HTML of Handlebars', 'k&quot;l&#x27;m&lt;n&amp;o\\p/q+r&#x3D;s&#x60;t'],
  ['HTML of validators', 'k&quot;l&#x27;m&lt;n&amp;o&#x5C;p&#x2F;q+r=s&#96;t'],
])('a value is searched as %s', (_, form) => {
  expect(textsFor(VALUE)).toContain(form);
});

it('text that is not ASCII is searched in UTF-8, in Latin-1 and as escapes in JSON', () => {
  const found = textsFor('jürgen<');
  for (const form of ['j\xc3\xbcrgen<', 'j\xfcrgen<', 'j\\u00fcrgen<', 'j\\u00FCrgen<'])
    expect(found).toContain(form);
});

it('a value is searched in base64 at each offset in a group of three, whatever is around it', () => {
  const value = 'pass-word';
  const forms = textsFor(value).filter((form) => form !== value);
  for (const before of ['', 'u', 'us', '~', '~~', 'xyz', 'xyz~'])
    for (const behind of ['', ':', '~~', 'xyz']) {
      const encoded = Buffer.from(before + value + behind).toString('base64');
      const longest = forms.filter((form) => encoded.includes(form)).map(({ length }) => length);
      // Of 12 or 13 characters that it takes part in, up to two are a neighbour's, too.
      expect(Math.max(...longest), `${before}|${behind}`).toBeGreaterThanOrEqual(11);
    }
});

it('a value is searched in both alphabets of base64', () => {
  const found = textsFor('>>>???>>>???');
  expect(found).toContain('Pj4+Pz8/Pj4+Pz8/');
  expect(found).toContain('Pj4-Pz8_Pj4-Pz8_');
});

it('no encoded form of fewer than six characters is searched, but a value of any length is', () => {
  // Its hex has six.
  expect(textsFor('abc')).toContain('616263');
  for (const short of ['ab', 'a"', 'abc'])
    expect(textsFor(short).filter((form) => form.length < 6)).toEqual([short]);
});

it('each form is searched once, for each of several values', () => {
  const found = textsFor('abcdef-1', 'abcdef-1', 'ghijkl"2');
  expect(new Set(found).size).toBe(found.length);
  expect(found).toEqual(expect.arrayContaining(['abcdef-1', 'ghijkl"2', 'ghijkl\\"2']));
});

it('a value that no encoder changes has few forms', () => {
  const steps = (value: string) => {
    const pace = new Pace();
    atOnce(needlesOf([value], pace));
    return pace.steps;
  };
  expect(steps('a'.repeat(100))).toBeLessThan(steps(`${'a'.repeat(99)}"`) / 2);
});

it('yields when a slice is full, and not before', () => {
  expect(needlesOf(['abcdef"'], new Pace()).next().done).toBe(true);
  const { done, value } = needlesOf(['"'.repeat(4_096)], new Pace()).next();
  expect(done).toBe(false);
  expect(value).toBeGreaterThanOrEqual(SLICE);
});

it('wipes every copy of a value that is not among the needles', () => {
  const allocated = vi.spyOn(Buffer, 'allocUnsafe');
  const copied = vi.spyOn(Buffer, 'from');
  const needles = new Set<unknown>(needlesFor(VALUE));
  const copies = [...allocated.mock.results, ...copied.mock.results]
    .map(({ value }) => value as Buffer)
    .filter((buffer) => !needles.has(buffer));
  expect(copies).not.toEqual([]);
  for (const copy of copies) expect(copy.every((byte) => byte === 0)).toBe(true);
});
