import { describe, expect, it } from 'vitest';
import { bounded, isPlainHost, lookAlikes, visible } from './visible.ts';

describe('a deceptive text', () => {
  it('has characters that turn, join or hide text replaced by visible ones', () => {
    expect(visible('pay\u202egpj.exe')).toBe('pay⟨U+202E⟩gpj.exe');
    expect(visible('a\u2066b\u2069\u00ad\ufeff\u{e0041}')).toBe(
      'a⟨U+2066⟩b⟨U+2069⟩⟨U+00AD⟩⟨U+FEFF⟩⟨U+E0041⟩',
    );
    expect(visible('two\nlines\tand more')).toBe('two\nlines\tand more');
    expect(visible('Größe, 日本語, العربية')).toBe('Größe, 日本語, العربية');
  });

  it('has no stacks of combining marks', () => {
    expect(visible(`z${'\u0334'.repeat(500)}!`)).toBe(`z${'\u0334'.repeat(3)}⟨…⟩!`);
  });

  it('is cut, with its length', () => {
    expect(bounded('x'.repeat(80), 80)).toBe('x'.repeat(80));
    expect(bounded('x'.repeat(10_000), 3)).toBe('xxx… (10,000 characters)');
    expect(bounded('😀'.repeat(60), 80)).toBe('😀'.repeat(60));
  });

  it('is marked if letters of another script are mixed with Latin ones', () => {
    expect(lookAlikes('Your p\u0430yp\u0430l key')).toEqual([
      { word: 'p\u0430yp\u0430l', letters: 'U+0430' },
    ]);
    expect(lookAlikes('\uff42ank')).toEqual([{ word: '\uff42ank', letters: 'U+FF42' }]);
    expect(lookAlikes('Ключ банка, Größe, café')).toEqual([]);
  });

  it.each([
    ['Cyrillic', '\u0440\u0430\u0443\u0440\u0430\u04cf', 'U+0440, U+0430, U+0443, U+04CF'],
    ['Greek', '\u039d\u0391\u03a4\u039f', 'U+039D, U+0391, U+03A4, U+039F'],
    ['Armenian', '\u057d\u057d\u0578', 'U+057D, U+0578'],
    ['Cherokee', '\u13da\u13aa\u13d9\u13ac', 'U+13DA, U+13AA, U+13D9, U+13AC'],
    ['Lisu', '\ua4d0\ua4ee\ua4e0\ua4d7', 'U+A4D0, U+A4EE, U+A4E0, U+A4D7'],
  ])('is marked if a word consists only of look-alike letters, of %s', (_, word, letters) => {
    expect(lookAlikes(`Key of ${word}-24`)).toEqual([{ word: `${word}-24`, letters }]);
  });

  it('is not marked for words without look-alike letters', () => {
    for (const text of ['Я и она, а у кота о нём', 'και η τράπεζα', 'բանկի բանալին', 'Это пароль от банка'])
      expect(lookAlikes(text), text).toEqual([]);
  });
});

describe('a host', () => {
  it.each([
    ['api.bank.org', true],
    ['xn--pypal-4ve.com', false],
    ['api.xn--80ak6aa92e.com', false],
    ['b\u0430nk.org', false],
    ['API.bank.org', false],
    ['a b', false],
  ])('%s is plain: %s', (host, plain) => expect(isPlainHost(host)).toBe(plain));
});
