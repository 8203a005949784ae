import { SaxesParser } from 'saxes';

/** XML of S3, both ways. No document types, no entities but the five, so nothing in it can grow or reach out. */
export class XmlError extends Error {
  constructor() {
    super('not the XML of an S3 message');
    this.name = 'XmlError';
  }
}

export type XmlNode = Readonly<Record<string, unknown>>;

/** What a document may be at most. Whoever writes more than this is read no further. */
export interface XmlShape {
  /** The name of the outermost element. */
  readonly root: string;
  /** Elements right below it that may come more than once. */
  readonly items: readonly string[];
  /** How many of them, of all names together. */
  readonly most: number;
  /**
   * Set for answers: an `Error` may replace the root, and elements below the fields of an item are skipped,
   * since servers send more than we ask for. Callers may not.
   */
  readonly answer?: true;
}

/** Fields of one element, and further elements beside the items. */
const MOST_FIELDS = 32;
/** The longest text of an element: keys and tokens are shorter. */
const MOST_TEXT = 4_096;
/** Attributes of an element; they say nothing here but what its prefixes stand for. */
const MOST_ATTRIBUTES = 16;
/** The longest tag, attribute or comment: the parser keeps all of it, and looks at it once more when it ends. */
const MOST_TOKEN = 64 * 1024;
/** Levels that are passed over at most. */
const MOST_DEPTH = 8;
/** Root, item, field. */
const FIELD = 3;

type Fields = Record<string, unknown>;

const emptyFields = (): Fields => Object.create(null) as Fields;

/**
 * Reads a document as it comes, piece by piece, and ends at the first element that is too deep or one too many: the
 * work for a document grows with its bytes alone, and what is kept of it with the items that were expected.
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
  /** Elements below the root that are no items, and fields of the item that is open. */
  #others = 0;
  #fields = 0;
  #attributes = 0;
  /** Characters that went in since the last tag, attribute or text. */
  #untold = 0;
  #text = '';
  #failed = false;
  #isError = false;
  #tooLong = false;

  constructor(shape: XmlShape) {
    this.#shape = shape;
    this.#items = Object.fromEntries(shape.items.map((name) => [name, []]));
    // No more handlers than these: with some more the parser is four times as slow.
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

  /** @throws XmlError, and then again for whatever follows */
  write(bytes: Uint8Array): void {
    this.#guarded(() => {
      const text = this.#utf8.decode(bytes, { stream: true });
      this.#untold += text.length;
      this.#parser.write(text);
      if (this.#untold > MOST_TOKEN) throw new XmlError();
    });
  }

  /**
   * The content of the root element.
   *
   * @throws XmlError when the document is not whole
   */
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
      // The cause is left out: the parser's message quotes the text.
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
    // An element with others in it is not a text, nor is one that is longer than any that we read.
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

/** Sets a field. A field that comes twice has neither of its values. */
function put(fields: Fields, name: string, value: unknown): void {
  fields[name] = name in fields ? {} : value;
}

/** Removes the namespace prefix. */
function local(name: string): string {
  return name.slice(name.lastIndexOf(':') + 1);
}

/** The content of the root of a small document that is there as a whole. */
export function parseXml(bytes: Uint8Array, shape: XmlShape): XmlNode {
  const reader = new XmlReader(shape);
  reader.write(bytes);
  return reader.end();
}

/** A child's text; undefined when it is not there once, as text. */
export function textOf(node: XmlNode, name: string): string | undefined {
  const value = node[name];
  return typeof value === 'string' ? value : undefined;
}

/** Children of one of the shape's items, which may be one or none. */
export function childrenOf(node: XmlNode, name: string): readonly XmlNode[] {
  const items = node[name];
  if (!Array.isArray(items)) throw new Error('not an item of this document');
  return items as readonly XmlNode[];
}

type XmlContent = string | number | boolean | readonly XmlElement[];
export type XmlElement = readonly [name: string, content: XmlContent];

/** A whole document. Names are ours; texts are escaped. */
export function xmlDocument(name: string, content: readonly XmlElement[]): string {
  return documentOf(name, elementsOf(content));
}

/** A whole document around what `elementsOf` made of its content. */
export function documentOf(name: string, elements: string): string {
  return `<?xml version="1.0" encoding="UTF-8"?>\n<${name} xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${elements}</${name}>`;
}

export function elementsOf(content: readonly XmlElement[]): string {
  return content.map(([name, child]) => `<${name}>${inner(child)}</${name}>`).join('');
}

/** Whether XML can say it, escaped or not. */
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
