import { XMLParser } from 'fast-xml-parser';

/** XML of S3, both ways. No document types, no entities but the five, so nothing in it can grow or reach out. */
export class XmlError extends Error {
  constructor(options?: { cause?: unknown }) {
    super('not the XML of an S3 message', options);
    this.name = 'XmlError';
  }
}

export type XmlNode = Readonly<Record<string, unknown>>;

const REPEATED = new Set(['Contents', 'CommonPrefixes', 'Part', 'Deleted', 'Error', 'Object', 'Upload']);

const parser = new XMLParser({
  ignoreAttributes: true,
  ignoreDeclaration: true,
  ignorePiTags: true,
  parseTagValue: false,
  trimValues: false,
  processEntities: true,
  // Go writes quotation marks as numbers.
  htmlEntities: true,
  removeNSPrefix: true,
});

const utf8 = new TextDecoder('utf-8', { fatal: true });

/** The content of the document's root element, which must have this name. */
export function parseXml(bytes: Uint8Array, root: string): XmlNode {
  const node = parseAny(bytes)[root];
  if (node === '') return {};
  if (typeof node !== 'object' || node === null || Array.isArray(node)) throw new XmlError();
  return node as XmlNode;
}

function parseAny(bytes: Uint8Array): XmlNode {
  try {
    const text = utf8.decode(bytes);
    if (/<!(?!--)/.test(text)) throw new XmlError();
    return parser.parse(text, true) as XmlNode;
  } catch (error) {
    if (error instanceof XmlError) throw error;
    throw new XmlError({ cause: error });
  }
}

/** A child's text; undefined when it is not there once, as text. */
export function textOf(node: XmlNode, name: string): string | undefined {
  const value = node[name];
  return typeof value === 'string' ? value : undefined;
}

/** Children of a repeated element, which may be one or none. */
export function childrenOf(node: XmlNode, name: string): readonly XmlNode[] {
  if (!REPEATED.has(name)) throw new Error('not a repeated element');
  const value = node[name];
  const all = value === undefined ? [] : Array.isArray(value) ? value : [value];
  return all.map((one) => (typeof one === 'object' && one !== null ? (one as XmlNode) : {}));
}

type XmlContent = string | number | boolean | readonly XmlElement[];
export type XmlElement = readonly [name: string, content: XmlContent];

/** A whole document. Names are ours; texts are escaped. */
export function xmlDocument(name: string, content: readonly XmlElement[]): string {
  return `<?xml version="1.0" encoding="UTF-8"?>\n<${name} xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${inner(content)}</${name}>`;
}

/** Whether XML can say it, escaped or not. */
export function isXmlText(text: string): boolean {
  return !/[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/u.test(text);
}

function inner(content: XmlContent): string {
  if (typeof content !== 'object') return escapeText(String(content));
  return content.map(([name, child]) => `<${name}>${inner(child)}</${name}>`).join('');
}

function escapeText(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
    .replaceAll('\r', '&#13;');
}
