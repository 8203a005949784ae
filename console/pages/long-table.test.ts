import { describe, expect, it } from 'vitest';
import { Url } from '../html/url.ts';
import type { Row } from '../kubernetes/tables.ts';
import { longTable } from './long-table.ts';

const rowsOf = (count: number): readonly Row[] =>
  Array.from({ length: count }, (_, index) => ({
    name: `capsule-${String(index + 1).padStart(4, '0')}`,
    created: '',
    ready: '',
    reason: '',
    why: '',
    since: '',
    capsule: '',
    version: '',
    assistants: '',
    assistantsReady: '',
    databaseUsed: '',
    storageUsed: '',
  }));

const shown = (count: number, query: string) => {
  const html = longTable(
    { query: new URLSearchParams(query) },
    {
      heads: ['Capsule'],
      rows: rowsOf(count),
      isCut: false,
      line: ({ name }) => [name],
      at: (name, part) => Url.path`/capsules?name=${name}&part=${part}`,
      what: 'Capsules',
    },
  ).toString();
  return { html, names: html.match(/capsule-\d{4}/g) ?? [] };
};

describe('a long table', () => {
  it('is searched on its own page, also if it is in the answer to a form', () => {
    expect(shown(101, '').html).toContain('<form method="get" action="/capsules">');
  });

  it('has no search field and no parts as long as it fits on a page', () => {
    const { html, names } = shown(100, '');
    expect(names).toHaveLength(100);
    expect(html).not.toContain('<form');
  });

  it('has parts, each with links to the previous and the next', () => {
    const { html, names } = shown(250, 'part=2');
    expect([names[0], names.at(-1), names.length]).toEqual(['capsule-0101', 'capsule-0200', 100]);
    expect(html).toContain('101 to 200 of 250 Capsules');
    expect(html).toContain('href="/capsules?name=&amp;part=1"');
    expect(html).toContain('href="/capsules?name=&amp;part=3"');
  });

  it.each([
    ['part=0', 'capsule-0001'],
    ['part=-7', 'capsule-0001'],
    ['part=1e9', 'capsule-0201'],
    ['part=NaN', 'capsule-0001'],
    ['part=1.9', 'capsule-0001'],
  ])('shows the nearest existing part for %s', (query, first) => {
    expect(shown(250, query).names[0]).toBe(first);
  });

  it('finds a part of a name in all rows, and says if there is none', () => {
    expect(shown(250, 'name=-0249').names).toEqual(['capsule-0249']);
    const { html, names } = shown(250, 'name=%3Cb%3E');
    expect(names).toEqual([]);
    expect(html).toContain('None of 250 Capsules has “&lt;b&gt;” in its name.');
  });
});
