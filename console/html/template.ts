import { type Hole, holesOf, TemplateError } from './context.ts';
import { Url } from './url.ts';
import { visible } from './visible.ts';

/** Markup that the `html` template created; no other code can create it. */
export class Html {
  readonly #text: string;

  private constructor(text: string) {
    this.#text = text;
  }

  /** For this module and the code that sends a page. */
  static join(parts: readonly string[]): Html {
    return new Html(parts.join(''));
  }

  toString(): string {
    return this.#text;
  }
}

/** An attribute without a value, which is either present or not. */
export class Flag {
  readonly name: FlagName | undefined;

  constructor(name: FlagName, isOn: boolean) {
    this.name = isOn ? name : undefined;
  }
}

type FlagName = 'autofocus' | 'checked' | 'disabled' | 'open' | 'required' | 'selected';

type Text = string | number | undefined | false | null;
export type Value = Text | Html | Flag | Url | readonly Value[];

const known = new WeakMap<TemplateStringsArray, readonly Hole[]>();

/**
 * Markup with values. The place of a value in the template's text decides what is accepted: texts and other markup
 * between tags, texts in quoted attributes, a `Url` as the whole value of a link attribute, a `Flag` between
 * attributes. A place where a text could become code is an error of the template.
 */
export function html(strings: TemplateStringsArray, ...values: readonly Value[]): Html {
  let holes = known.get(strings);
  if (holes === undefined) {
    holes = holesOf(strings);
    known.set(strings, holes);
  }
  const parts = [strings[0] ?? ''];
  for (const [index, value] of values.entries()) {
    const hole = holes[index];
    if (hole === undefined) throw new TemplateError('a value without a place');
    parts.push(fill(hole, value), strings[index + 1] ?? '');
  }
  return Html.join(parts);
}

export const flag = (name: FlagName, isOn: boolean): Flag => new Flag(name, isOn);

/** The only element that runs code: a script file of the console. Templates cannot create it. */
export const script = (from: Url): Html => Html.join([`<script src="${escaped(from.text)}" defer></script>`]);

function fill(hole: Hole, value: Value): string {
  switch (hole) {
    case 'content':
      return content(value);
    case 'attribute':
      if (value instanceof Url) return escaped(value.text);
      return escaped(visible(textOf(value, 'a quoted attribute takes text')));
    case 'url':
      if (value instanceof Url) return escaped(value.text);
      throw new TemplateError('an attribute that leads somewhere takes a Url');
    case 'flag':
      if (value instanceof Flag) return value.name ?? '';
      throw new TemplateError('only a Flag may stand between attributes');
  }
}

function content(value: Value): string {
  if (value instanceof Html) return value.toString();
  if (Array.isArray(value)) return value.map((one: Value) => content(one)).join('');
  return escaped(visible(textOf(value, 'between tags stand text and markup')));
}

function textOf(value: Value, says: string): string {
  if (value === undefined || value === null || value === false) return '';
  if (typeof value === 'string') return value;
  if (typeof value === 'number') return String(value);
  throw new TemplateError(says);
}

const ESCAPES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
  '`': '&#96;',
};

const escaped = (text: string): string => text.replace(/[&<>"'`]/g, (character) => ESCAPES[character] ?? '');
