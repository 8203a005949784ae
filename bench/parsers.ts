import { parseStrictJson } from '../brokers/kit/json.ts';
import { XmlError, XmlReader, type XmlShape } from '../brokers/objectstore/upstream/xml.ts';
import { quantile, type Report } from '../testing/report.ts';

/**
 * Measures the processor time of parsing for each byte of the most expensive documents that were found, and the longest
 * uninterrupted piece of work. It is compared with `JSON.parse` of the same bytes, or of a JSON list of the same length if the
 * document is XML. All limits of items are off, since most of these documents would be refused at once.
 */
export async function run({ quick }: { readonly quick: boolean }): Promise<Report> {
  const rounds = quick ? 5 : 25;
  const rows = [
    ...Object.entries(xmlDocuments()).map(([name, document]) => ['XML', name, document, readXml] as const),
    ...Object.entries(jsonDocuments()).map(([name, document]) => ['JSON', name, document, readJson] as const),
  ].map(([kind, name, document, read]) => {
    const ours = measure(rounds, () => read(document));
    const beside = measure(rounds, () => {
      JSON.parse(kind === 'JSON' ? document.toString() : NUMBERS);
      return undefined;
    });
    return {
      kind,
      document: name,
      'ns/byte': Math.round((ours.ms * 1e6) / document.length),
      'longest turn, ms': Math.round(ours.longest * 10) / 10,
      'JSON.parse, ns/byte': Math.round((beside.ms * 1e6) / document.length),
    };
  });
  const worst = (kind: string) =>
    Math.max(...rows.flatMap((row) => (row.kind === kind ? row['ns/byte'] : [])));
  return {
    title: 'Time to parse documents of 1 MiB',
    rows,
    figures: { worst_xml_ns_per_byte: worst('XML'), worst_json_ns_per_byte: worst('JSON') },
  };
}

const BYTES = 1024 * 1024;
/** Documents are parsed in slices of this size, as in the broker. */
const SLICE = 16 * 1024;
const SHAPE: XmlShape = { root: 'Delete', items: ['Object'], most: Number.POSITIVE_INFINITY };
const NUMBERS = `[${'0,'.repeat(BYTES / 2 - 1)}0]`;

function fill(before: string, piece: string, after = ''): Buffer {
  const times = Math.floor((BYTES - before.length - after.length) / piece.length);
  return Buffer.from(before + piece.repeat(times) + after);
}

function xmlDocuments(): Readonly<Record<string, Buffer>> {
  const [key, end] = ['<Delete><Object><Key>', '</Key></Object></Delete>'];
  return {
    keys: fill('<Delete>', '<Object><Key>abcdefghij</Key></Object>', '</Delete>'),
    'empty objects': fill('<Delete>', '<Object/>', '</Delete>'),
    entities: fill(key, '&amp;', end),
    'carriage returns': fill(key, '\r', end),
    brackets: fill(key, ']', end),
    attributes: fill('<Delete ', 'a="" ', '/>'),
    comments: fill('<Delete>', '<!---->', '</Delete>'),
    'a document type': fill('<!DOCTYPE a [', '<!---->'),
    'a name': fill('<', 'a'),
  };
}

function jsonDocuments(): Readonly<Record<string, Buffer>> {
  const names = Array.from({ length: 9_000 }, (_, n) => `"a${n}":0`).join(',');
  return {
    'empty objects': fill('[', '{},', '{}]'),
    numbers: fill('[', '0,', '0]'),
    escapes: fill('["', '\\u0061', '"]'),
    levels: fill('[', '[[[]]],', '0]'),
    'keys, 9,000 an object': fill('[', `{${names}},`, '0]'),
  };
}

/** Returns the milliseconds of each piece of work. */
type Read = (document: Buffer) => number[] | undefined;

const readXml: Read = (document) => {
  const reader = new XmlReader(SHAPE);
  const turns: number[] = [];
  try {
    for (let at = 0; at < document.length; at += SLICE) {
      const before = process.threadCpuUsage();
      reader.write(document.subarray(at, at + SLICE));
      turns.push(since(before));
    }
    reader.end();
  } catch (error) {
    if (!(error instanceof XmlError)) throw error;
  }
  return turns;
};

const readJson: Read = (document) => {
  parseStrictJson(document, { elements: Number.POSITIVE_INFINITY, members: Number.POSITIVE_INFINITY });
  return undefined;
};

/** Milliseconds of processor time. */
function since(before: NodeJS.CpuUsage): number {
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1_000;
}

/** The medians of the processor time of all pieces together, and of the longest one. */
function measure(
  rounds: number,
  act: () => number[] | undefined,
): { readonly ms: number; readonly longest: number } {
  const samples: { ms: number; longest: number }[] = [];
  for (let round = 0; round <= rounds; round += 1) {
    const before = process.threadCpuUsage();
    const turns = act();
    const ms = since(before);
    // The first round warms caches and compilers.
    if (round > 0) samples.push({ ms, longest: Math.max(...(turns ?? [ms])) });
  }
  const median = (of: 'ms' | 'longest') =>
    quantile(
      samples.map((one) => one[of]),
      0.5,
    );
  return { ms: median('ms'), longest: median('longest') };
}
