import fc from 'fast-check';
import { type DefaultTreeAdapterTypes, parseFragment } from 'parse5';
import { describe, expect, it } from 'vitest';
import { TemplateError } from './context.ts';
import { flag, html } from './template.ts';
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

  it('has the same tags and attributes whatever texts are put into it', () => {
    fc.assert(
      fc.property(hostile, (text) => {
        expect(shape(parsed(page(text, Url.path`/capsules/${text}?q=${text}`).toString()))).toEqual(plain);
      }),
      { numRuns: 500 },
    );
  });

  it('leads only to a path of the console below what the template names, whatever is put into a path', () => {
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

  it('leads outside only by https', () => {
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

  it('shows what turns or hides text by its code point', () => {
    expect(html`<p>${'a\u202eb\u200bc\u0000'}</p>`.toString()).toBe('<p>a⟨U+202E⟩b⟨U+200B⟩c⟨U+0000⟩</p>');
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
