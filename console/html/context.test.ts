import { describe, expect, it } from 'vitest';
import { holesOf, TemplateError } from './context.ts';

/** A dollar sign is a place for a value. */
const holes = (text: string) => holesOf(text.split('$'));

describe('the placeholders of a template', () => {
  it.each([
    ['<p class="a">text</p>', []],
    ['$', ['content']],
    ['<p>$</p>$', ['content', 'content']],
    ['<p title="$" data-x="a $ b $">$</p>', ['attribute', 'attribute', 'attribute', 'content']],
    ['<input $ name="x" $>', ['flag', 'flag']],
    ['<input required value="$"/>$', ['attribute', 'content']],
    ['<input name="a"/>', []],
    ['<br/>$', ['content']],
    ['<a class="x" href="$">$</a>', ['url', 'content']],
    ['<!doctype html><html><p\n  id="$"\n>$</p></html>', ['attribute', 'content']],
    ['<svg viewBox="0 0 1 1"><text x="$">a > b</text></svg>', ['attribute']],
    ['<h1>$</h1>', ['content']],
  ])('of %s', (text, expected) => {
    expect(holes(text)).toEqual(expected);
  });

  it.each([
    ...['action', 'background', 'cite', 'data', 'formaction', 'href', 'manifest', 'ping', 'poster'],
    ...['src', 'srcset', 'xlink:href', 'HREF'],
  ])('are whole URLs in %s, without other text', (name) => {
    expect(holes(`<a ${name}="$">`)).toEqual(['url']);
    for (const text of [`/x$`, `$/x`, `$$`, `#$`])
      expect(() => holes(`<a ${name}="${text}">`)).toThrow(/^a Url is the whole of /);
    expect(holes(`<a ${name}="/x" title="$">`)).toEqual(['attribute']);
  });

  it.each(['onclick', 'onload', 'style', 'srcdoc', 'http-equiv', 'OnClick'])(
    'are not allowed in %s',
    (name) => {
      expect(() => holes(`<p ${name}="$">`)).toThrow(/^no value may stand in the attribute /);
    },
  );

  it.each(['data-on', 'xstyle', 'styles', 'data-href', 'hrefs'])('are plain text in %s', (name) => {
    expect(holes(`<p ${name}="$">`)).toEqual(['attribute']);
  });
});

describe('a template', () => {
  it.each([
    ...['script', 'style', 'iframe', 'noscript', 'template', 'xmp', 'plaintext', 'noembed', 'scriPT'],
  ])('cannot create %s', (name) => {
    expect(() => holes(`<${name}>`)).toThrow(/^no template makes a /);
    expect(() => holes(`<${name} a="$">`)).toThrow(/^no template makes a /);
  });

  it.each([
    ['<$p>', 'not a tag: <'],
    ['<1>', 'not a tag: <1>'],
    ['<1><p>', 'not a tag: <1><p>'],
    ['<!-- $ -->', 'not a tag: <!-- '],
    ['<![CDATA[', 'not a tag: <![CDATA['],
    ['</p x>', 'not a tag: </p x>'],
    ['</$>', 'not a tag: </'],
    ['<a=b>', 'not a tag: <a=b>'],
    ['a < b', 'not a tag: < b'],
    ['x<!doctype html', 'not a tag: <!doctype html'],
    [`<${'1'.repeat(30)}`, `not a tag: <${'1'.repeat(19)}`],
    ['<p class=$>', 'an attribute without quotes: class='],
    ["<p class='$'>", "an attribute without quotes: class='"],
    ['<p class= "$">', 'an attribute without quotes: class= "'],
    ['<p 1="$">', 'an attribute without quotes: 1="'],
    [`<p =${'1'.repeat(30)}>`, `an attribute without quotes: =${'1'.repeat(19)}`],
    ['<p "$">', 'an attribute without quotes: "'],
    ['<p "x="$">', 'an attribute without quotes: "x="'],
    ['<p', 'not a tag: <p'],
    ['<p ', 'the template ends within a tag'],
    ['<p class="a', 'the template ends within a tag'],
    ['<p class="$', 'the template ends within a tag'],
  ])('cannot be %s', (text, message) => {
    expect(() => holes(text)).toThrow(TemplateError);
    expect(() => holes(text)).toThrow(new TemplateError(message));
  });
});
