import fc from 'fast-check';
import { type DefaultTreeAdapterTypes, parseFragment } from 'parse5';
import { describe, expect, it } from 'vitest';
import { TemplateError } from './context.ts';
import { flag, html, script, type Value } from './template.ts';
import { Url } from './url.ts';

type Node = DefaultTreeAdapterTypes.ChildNode;

/** Tags and the names of their attributes, as a browser's parser reads them. */
function shape(nodes: readonly Node[]): unknown {
  return nodes.flatMap((node) => {
    if (!('tagName' in node)) return node.nodeName === '#text' ? [] : [node.nodeName];
    return [[node.tagName, node.attrs.map(({ name }) => name), shape(node.childNodes)]];
  });
}
const parsed = (text: string) => parseFragment(text).childNodes;

const hostile = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 200 }),
  fc
    .array(
      fc.constantFrom(
        ...[
          '<',
          '>',
          '"',
          "'",
          '`',
          '&',
          '=',
          '/',
          ' ',
          '\n',
          '\0',
          '\r',
          '&quot;',
          '&#34',
          '<script>',
          '</a>',
        ],
        ...[
          '<!--',
          '-->',
          ']]>',
          'javascript:',
          'onerror=',
          '\u202e',
          '\u2028',
          '\ufeff',
          '<svg/onload=',
          'x',
        ],
      ),
      { maxLength: 30 },
    )
    .map((pieces) => pieces.join('')),
);

const page = (text: string, url: Url) => html`<section title="${text}" data-name="a ${text} b">
  <h1>${text}</h1> <textarea name="t">${text}</textarea> <a class="x" href="${url}">${text}</a>
  <input value="${text}" ${flag('required', true)}> <svg viewBox="0 0 1 1"><text x="1">${text}</text></svg>
  <ul>${[text, text].map((one) => html`<li>${one}</li>`)}</ul></section>`;

describe('a page made by the template', () => {
  const plain = shape(parsed(page('x', Url.path`/y`).toString()));

  it('has the same tags and attributes whatever texts are inserted', () => {
    fc.assert(
      fc.property(hostile, (text) => {
        expect(shape(parsed(page(text, Url.path`/capsules/${text}?q=${text}`).toString()))).toEqual(plain);
      }),
      { numRuns: 500 },
    );
  });

  it('links only to paths of the console below the one in the template, whatever is inserted', () => {
    fc.assert(
      fc.property(hostile, (text) => {
        const url = new URL(Url.path`/capsules/${text}/x?q=${text}`.text, 'https://console.test');
        expect(url.origin).toBe('https://console.test');
        expect(url.pathname).toMatch(/^\/capsules\/[^/]*\/x$/);
        expect([...url.searchParams.keys()]).toEqual(['q']);
        expect(url.hash).toBe('');
      }),
      { numRuns: 500 },
    );
  });

  it('links to the outside only with https', () => {
    fc.assert(
      fc.property(fc.oneof(hostile, fc.webUrl()), (text) => {
        const url = Url.external(text);
        if (url !== undefined) expect(new URL(url.text).protocol).toBe('https:');
      }),
    );
    for (const text of [
      'javascript:alert(1)',
      'http://x.org/',
      '//x.org',
      'https://a@x.org/',
      'data:text/html,x',
    ])
      expect(Url.external(text), text).toBeUndefined();
  });

  it('shows characters that turn or hide text by their code points', () => {
    expect(html`<p>${'a\u202eb\u200bc\u0000'}</p>`.toString()).toBe('<p>a⟨U+202E⟩b⟨U+200B⟩c⟨U+0000⟩</p>');
  });
});

describe('a value', () => {
  const between = (value: Value) => html`<p>${value}</p>`.toString();
  const quoted = (value: Value) => html`<p title="${value}">`.toString();

  it('is written at its place, and a missing one writes nothing', () => {
    expect(html`plain`.toString()).toBe('plain');
    expect(html`${'a'}-${'b'}<p title="${'c'}">${1}</p>.`.toString()).toBe('a-b<p title="c">1</p>.');
    for (const nothing of [undefined, null, false] as const) {
      expect(between(nothing)).toBe('<p></p>');
      expect(quoted(nothing)).toBe('<p title="">');
    }
    expect([between(0), quoted(0), between('')]).toEqual(['<p>0</p>', '<p title="0">', '<p></p>']);
    expect(between([html`<b>${'&'}</b>`, ['<', 1]])).toBe('<p><b>&amp;</b>&lt;1</p>');
    expect(quoted(Url.path`/a?b=${'c'}&d=e`)).toBe('<p title="/a?b=c&amp;d=e">');
    expect(html`<a href="${Url.path`/a?b=c&d=e`}">`.toString()).toBe('<a href="/a?b=c&amp;d=e">');
    expect(between(`<>&"'\``)).toBe('<p>&lt;&gt;&amp;&quot;&#39;&#96;</p>');
    expect(script(Url.path`/a.js?b&c`).toString()).toBe('<script src="/a.js?b&amp;c" defer></script>');
  });

  it('is allowed between attributes as a flag that is on or off', () => {
    expect(html`<input ${flag('required', true)}>`.toString()).toBe('<input required>');
    expect(html`<input ${flag('required', false)}>`.toString()).toBe('<input >');
  });

  it.each<[string, () => unknown, string]>([
    ['a text as a flag', () => html`<p ${'open'}>`, 'only a Flag may stand between attributes'],
    ['a text as an address', () => html`<a href="${'/a'}">`, 'an attribute that leads somewhere takes a Url'],
    ['markup in an attribute', () => quoted(html`<b>`), 'a quoted attribute takes text'],
    ['a list in an attribute', () => quoted(['a']), 'a quoted attribute takes text'],
    ['a flag between tags', () => between(flag('open', true)), 'between tags stand text and markup'],
    ['an address between tags', () => between(Url.path`/a`), 'between tags stand text and markup'],
    ['true', () => between(true as unknown as Value), 'between tags stand text and markup'],
    ['one too many', () => html(Object.assign(['a'], { raw: ['a'] }), 'b'), 'a value without a place'],
  ])('is refused: %s', (_, make, message) => {
    expect(make).toThrow(new TemplateError(message));
  });
});

describe('a template in which a text could become code', () => {
  it.each<[string, () => unknown]>([
    ['an attribute without quotes', () => html`<p class=${'x'}></p>`],
    ['an attribute in single quotes', () => html`<p class='${'x'}'></p>`],
    ['the name of a tag', () => html`<${'x'}></p>`],
    ['the name of an attribute', () => html`<p ${'onclick'}="x"></p>`],
    ['a handler', () => html`<p onclick="${'x'}"></p>`],
    ['a style', () => html`<p style="${'x'}"></p>`],
    ['a document in a frame', () => html`<p srcdoc="${'x'}"></p>`],
    ['a script', () => html`<script>${'x'}</script>`],
    ['a style sheet', () => html`<style>${'x'}</style>`],
    ['a comment', () => html`<!-- ${'x'} -->`],
    ['a link to a text', () => html`<a href="${'/x'}"></a>`],
    ['a link with a text before it', () => html`<a href="/x${Url.path`/y`}"></a>`],
    ['a link with a text behind it', () => html`<a href="${Url.path`/y`}x"></a>`],
    ['a form that goes to a text', () => html`<form action="${'/x'}"></form>`],
    ['an object', () => html`<p>${{ toString: () => '<b>' } as unknown as string}</p>`],
    ['a template that ends in a tag', () => html`<p class="${'x'}"`],
  ])('is refused: %s', (_, make) => {
    expect(make).toThrow(TemplateError);
  });
});
