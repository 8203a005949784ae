import { SaxesParser } from 'saxes';

/**
 * Invalid XML. The parser accepts neither document types nor entities other than the five predefined ones, so that no
 * document can expand or refer to anything outside.
 */
export class XmlError extends Error {
  constructor() {
    super('not the XML of an S3 message');
    this.name = 'XmlError';
  }
}

export type XmlNode = Readonly<Record<string, unknown>>;

/** The permitted form of a document; reading stops at the first violation. */
export interface XmlShape {
  /** The name of the root element. */
  readonly root: string;
  /** Elements directly below the root that may be repeated. */
  readonly items: readonly string[];
  /** The most items, of all names together. */
  readonly most: number;
  /**
   * Set for answers: an `Error` may replace the root, and elements below an item's fields are skipped, since servers
   * send more than requested. Callers may not do either.
   */
  readonly answer?: true;
}

/** The most fields of one element, and the most elements beside the items. */
const MOST_FIELDS = 32;
/** The most characters of a text; keys and tokens are shorter. */
const MOST_TEXT = 4_096;
/** The most attributes of an element; they only declare namespace prefixes here. */
const MOST_ATTRIBUTES = 16;
/** The longest tag, attribute or comment, which the parser keeps in memory and reads again at its end. */
const MOST_TOKEN = 64 * 1024;
/** The most levels of skipped elements. */
const MOST_DEPTH = 8;
/** The depth of a field: root, item, field. */
const FIELD = 3;

type Fields = Record<string, unknown>;

const emptyFields = (): Fields => Object.create(null) as Fields;

/**
 * Parses a document while it arrives, and stops at the first element that is too deep or too many. The work is
 * proportional to the bytes, and the memory to the expected items.
 */
export class XmlReader {
  readonly #shape: XmlShape;
  readonly #utf8 = new TextDecoder('utf-8', { fatal: true });
  readonly #parser = new SaxesParser({
    xmlns: false,
    position: false,
    defaultXMLVersion: '1.0',
    forceXMLVersion: true,
  });
  readonly #root = emptyFields();
  readonly #items: Readonly<Record<string, Fields[]>>;
  #item: Fields | undefined;
  #depth = 0;
  #itemCount = 0;
  /** The number of elements below the root that are not items, and of fields of the open item. */
  #others = 0;
  #fields = 0;
  #attributes = 0;
  /** Characters since the last tag, attribute or text. */
  #untold = 0;
  #text = '';
  #failed = false;
  #isError = false;
  #tooLong = false;

  constructor(shape: XmlShape) {
    this.#shape = shape;
    this.#items = Object.fromEntries(shape.items.map((name) => [name, []]));
    // Only these handlers are set, since with some more the parser is four times as slow.
    this.#parser.on('attribute', () => {
      this.#untold = 0;
      this.#attributes += 1;
      if (this.#attributes > MOST_ATTRIBUTES) throw new XmlError();
    });
    this.#parser.on('opentag', ({ name }) => this.#open(local(name)));
    this.#parser.on('closetag', ({ name }) => this.#close(local(name)));
    this.#parser.on('text', (text) => this.#add(text));
    this.#parser.on('cdata', (text) => this.#add(text));
    this.#parser.on('doctype', () => {
      throw new XmlError();
    });
  }

  /** Whether the root is an `Error`. */
  get isError(): boolean {
    return this.#isError;
  }

  /** @throws XmlError, also for every later call */
  write(bytes: Uint8Array): void {
    this.#guarded(() => {
      const text = this.#utf8.decode(bytes, { stream: true });
      this.#untold += text.length;
      this.#parser.write(text);
      if (this.#untold > MOST_TOKEN) throw new XmlError();
    });
  }

  /** The content of the root element. @throws XmlError if the document is incomplete */
  end(): XmlNode {
    this.#guarded(() => void this.#parser.write(this.#utf8.decode()).close());
    for (const [name, items] of Object.entries(this.#items)) this.#root[name] = items;
    return this.#root;
  }

  #guarded(act: () => void): void {
    if (this.#failed) throw new XmlError();
    try {
      act();
    } catch {
      this.#failed = true;
      // The cause is left out, since the parser's message quotes the text.
      throw new XmlError();
    }
  }

  #open(name: string): void {
    this.#untold = 0;
    this.#attributes = 0;
    this.#depth += 1;
    this.#text = '';
    this.#tooLong = false;
    if (this.#depth === 1) {
      this.#isError = this.#shape.answer === true && name === 'Error';
      if (name !== this.#shape.root && !this.#isError) throw new XmlError();
    } else if (this.#depth === 2) {
      this.#openSecond(name);
    } else if (this.#depth === FIELD) {
      this.#fields += 1;
      if (this.#fields > MOST_FIELDS) throw new XmlError();
    } else if (this.#shape.answer === undefined || this.#depth > MOST_DEPTH) throw new XmlError();
  }

  #openSecond(name: string): void {
    this.#fields = 0;
    const items = this.#itemsOf(name);
    this.#item = items === undefined ? undefined : emptyFields();
    if (this.#item === undefined) this.#others += 1;
    else {
      this.#itemCount += 1;
      items?.push(this.#item);
    }
    if (this.#itemCount > this.#shape.most || this.#others > MOST_FIELDS) throw new XmlError();
  }

  #close(name: string): void {
    this.#untold = 0;
    // An element with children is not a text, nor is one that is longer than permitted.
    const isText = !this.#tooLong && (this.#depth === FIELD || this.#fields === 0);
    const value = isText ? this.#text : {};
    if (this.#depth === FIELD && this.#item !== undefined) put(this.#item, name, value);
    else if (this.#depth === 2 && this.#item === undefined) put(this.#root, name, value);
    this.#depth -= 1;
    this.#text = '';
  }

  #add(text: string): void {
    this.#untold = 0;
    if (this.#depth !== 2 && this.#depth !== FIELD) return;
    if (this.#text.length + text.length <= MOST_TEXT) this.#text += text;
    else if (this.#shape.answer === true) this.#tooLong = true;
    else throw new XmlError();
  }

  #itemsOf(name: string): Fields[] | undefined {
    return Object.hasOwn(this.#items, name) ? this.#items[name] : undefined;
  }
}

/** Sets a field; a field that occurs twice has neither value. */
function put(fields: Fields, name: string, value: unknown): void {
  fields[name] = name in fields ? {} : value;
}

/** Removes the namespace prefix. */
function local(name: string): string {
  return name.slice(name.lastIndexOf(':') + 1);
}

/** The content of the root of a small document. */
export function parseXml(bytes: Uint8Array, shape: XmlShape): XmlNode {
  const reader = new XmlReader(shape);
  reader.write(bytes);
  return reader.end();
}

/** The text of a child; undefined unless it occurs once, as text. */
export function textOf(node: XmlNode, name: string): string | undefined {
  const value = node[name];
  return typeof value === 'string' ? value : undefined;
}

/** The children with an item's name, in a list also if there is only one. */
export function childrenOf(node: XmlNode, name: string): readonly XmlNode[] {
  const items = node[name];
  if (!Array.isArray(items)) throw new Error('not an item of this document');
  return items as readonly XmlNode[];
}

type XmlContent = string | number | boolean | readonly XmlElement[];
export type XmlElement = readonly [name: string, content: XmlContent];

/** A whole document; names are constants, and texts are escaped. */
export function xmlDocument(name: string, content: readonly XmlElement[]): string {
  return documentOf(name, elementsOf(content));
}

/** A whole document with the given content. */
export function documentOf(name: string, elements: string): string {
  return `<?xml version="1.0" encoding="UTF-8"?>\n<${name} xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${elements}</${name}>`;
}

export function elementsOf(content: readonly XmlElement[]): string {
  return content.map(([name, child]) => `<${name}>${inner(child)}</${name}>`).join('');
}

/** Whether XML can express the text, escaped or not. */
export function isXmlText(text: string): boolean {
  return !/[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/u.test(text);
}

function inner(content: XmlContent): string {
  if (typeof content !== 'object') return escapeText(String(content));
  return elementsOf(content);
}

function escapeText(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
    .replaceAll('\r', '&#13;');
}
