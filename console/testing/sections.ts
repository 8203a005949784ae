import { parse } from 'parse5';
import { attribute, textOf, walk } from './browser.ts';

/** What a person gets of a section: its content, a form or button in it, or a sentence about the missing right. */
export type Given = 'shown' | 'acts' | 'withheld';

const WITHHELD = /You may not (?:see|enter)|People with the verb/;

/** The sections of a page by their headings, `chapter / card`; what stands before the first of them has an empty name. */
export function sectionsOf(page: string): Readonly<Record<string, Given>> {
  const main = [...walk(parse(page))].find(({ tagName }) => tagName === 'main');
  if (main === undefined) throw new Error('a page without a main part');
  const sections: Record<string, Given> = {};
  let [chapter, name] = ['', ''];
  for (const element of walk(main)) {
    const { tagName } = element;
    const text = textOf(element).replace(/\s+/g, ' ').trim();
    if (tagName === 'h2') chapter = text;
    if (tagName === 'h2' || tagName === 'h3') name = tagName === 'h2' ? text : `${chapter} / ${text}`;
    sections[name] ??= 'shown';
    if (tagName === 'form' || /(?:^| )button(?: |$)/.test(attribute(element, 'class') ?? ''))
      sections[name] = 'acts';
    if (/^(?:p|span|summary|li)$/.test(tagName) && WITHHELD.test(text)) sections[name] = 'withheld';
  }
  return sections;
}
