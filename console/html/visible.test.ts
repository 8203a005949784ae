import { describe, expect, it } from 'vitest';
import { bounded, isPlainHost, lookAlikes, visible } from './visible.ts';

describe('a text that deceives', () => {
  it('shows marks that turn, join or hide', () => {
    expect(visible('pay\u202egpj.exe')).toBe('pay⟨U+202E⟩gpj.exe');
    expect(visible('a\u2066b\u2069\u00ad\ufeff\u{e0041}')).toBe(
      'a⟨U+2066⟩b⟨U+2069⟩⟨U+00AD⟩⟨U+FEFF⟩⟨U+E0041⟩',
    );
    expect(visible('two\nlines\tand more')).toBe('two\nlines\tand more');
    expect(visible('Größe, 日本語, العربية')).toBe('Größe, 日本語, العربية');
  });

  it('piles no marks over its neighbours', () => {
    expect(visible(`z${'\u0334'.repeat(500)}!`)).toBe(`z${'\u0334'.repeat(3)}⟨…⟩!`);
  });

  it('is cut, and says how long it is', () => {
    expect(bounded('x'.repeat(80), 80)).toBe('x'.repeat(80));
    expect(bounded('x'.repeat(10_000), 3)).toBe('xxx… (10,000 characters)');
    expect(bounded('😀'.repeat(60), 80)).toBe('😀'.repeat(60));
  });

  it('is told when letters of another script stand among Latin ones', () => {
    expect(lookAlikes('Your p\u0430yp\u0430l key')).toEqual([
      { word: 'p\u0430yp\u0430l', letters: 'U+0430' },
    ]);
    expect(lookAlikes('\uff42ank')).toEqual([{ word: '\uff42ank', letters: 'U+FF42' }]);
    expect(lookAlikes('Ключ банка, Größe, café')).toEqual([]);
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
