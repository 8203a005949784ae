import { describe, expect, it } from 'vitest';
import { Url } from './url.ts';

const path = (text: string) => Url.path(Object.assign([text], { raw: [text] }));

describe('a path of the console', () => {
  it('has each value in one segment, or one value of the query', () => {
    expect(Url.path`/`.text).toBe('/');
    expect(Url.path`/capsules/${'a/b?c#d'}/x?q=${'e&f=g'}&n=${5}#here`.text).toBe(
      '/capsules/a%2Fb%3Fc%23d/x?q=e%26f%3Dg&n=5#here',
    );
    expect(Url.path`/a/${'\ud800'}`.text).toBe('/a/%EF%BF%BD');
  });

  it('never leads to its parent by a name of dots', () => {
    for (const [name, segment] of [
      ['.', '%252E'],
      ['..', '%252E%252E'],
      ['.a', '.a'],
      ['a.', 'a.'],
    ] as const)
      expect(Url.path`/a/${name}/b`.text).toBe(`/a/${segment}/b`);
  });

  it.each(['', 'capsules', '//evil.example', 'https://evil.example', '/a b', '/a\\b', '/"', '/a:', '/ä'])(
    'is not %j',
    (text) => {
      expect(() => path(text)).toThrow('a path of the console begins with one slash');
    },
  );

  it('may not have more text after a value', () => {
    expect(() => Url.path`/a/${'x'}:b`).toThrow(TypeError);
    expect(() => Url.path`/a/${'x'}b/${'y'} `).toThrow(TypeError);
  });

  it('is the same without its query', () => {
    expect(Url.path`/a/b?c=${'d'}#e`.withoutQuery().text).toBe('/a/b');
    expect(Url.path`/a/b#e?`.withoutQuery().text).toBe('/a/b');
    expect(Url.path`/a/b`.withoutQuery().text).toBe('/a/b');
    expect(Url.path`/a`.host).toBe('console.invalid');
  });
});

it('a place on the same page is an id of ours', () => {
  expect(Url.here('a-1').text).toBe('#a-1');
  for (const id of ['', '1a', '-a', 'A', 'a b', 'a"', 'x#a', 'a/'])
    expect(() => Url.here(id)).toThrow('not an id');
});

describe('an external address', () => {
  it('has to be https, and is normalised as browsers send it', () => {
    expect(Url.external('HTTPS://Bücher.example:443/a b')?.text).toBe('https://xn--bcher-kva.example/a%20b');
    expect(Url.external('https://Bücher.example:8443/')?.host).toBe('xn--bcher-kva.example:8443');
  });

  it.each([
    'http://a.example/',
    'javascript:alert(1)',
    'data:text/html,x',
    '//a.example',
    '/a',
    'a',
    'https://user@a.example/',
    'https://:password@a.example/',
  ])('is not %s', (text) => {
    expect(Url.external(text)).toBeUndefined();
  });

  it('has at most 2,048 characters', () => {
    const long = `https://a.example/${'x'.repeat(2_030)}`;
    expect(Url.external(long)?.text).toBe(long);
    expect(Url.external(`${long}x`)).toBeUndefined();
  });
});
