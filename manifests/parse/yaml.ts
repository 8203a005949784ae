import type { Document, Node, Scalar, YAMLMap } from 'yaml';
import { isAlias, isCollection, isMap, isScalar, isSeq, LineCounter, parseAllDocuments, visit } from 'yaml';
import type { ErrorReport, Path } from './error.ts';
import { quoted } from './found.ts';
import { DEPTH_LIMIT } from './json.ts';

/** A position in a file, counted from 1. */
export interface Position {
  readonly line: number;
  readonly column: number;
}

/** One document of a YAML stream, as JSON could say it too. */
export interface YamlDocument {
  readonly value: unknown;
  /** The position of what a JSON pointer points to, or of the nearest thing around it. */
  locate(pointer: string): Position;
}

/**
 * Reads YAML of the kind that every reader understands alike: no anchors, no tags, no merge keys, no plain word that
 * one version of YAML takes for text and another for a boolean, a number or a date (kubectl's is an old one).
 */
export function readYaml(text: string, report: ErrorReport): readonly YamlDocument[] {
  const lines = new LineCounter();
  let documents: ReturnType<typeof parseAllDocuments>;
  try {
    documents = parseAllDocuments(text, {
      lineCounter: lines,
      version: '1.2',
      merge: false,
      // Its own check compares each key with all others of its map.
      uniqueKeys: false,
      logLevel: 'silent',
    });
  } catch (error) {
    // The parser recurses as deep as the text nests.
    if (!(error instanceof RangeError)) throw error;
    report([], 'depth', `must not nest deeper than ${DEPTH_LIMIT} levels`);
    return [];
  }
  const at = (offset: number): Position => {
    const { line, col } = lines.linePos(offset);
    return { line, column: col };
  };
  refuseLineBreaks(text, at, report);
  return documents.map((document) => {
    for (const { message, pos } of document.errors) {
      const { line, column } = at(pos[0]);
      report(
        [],
        'yaml',
        `${message.split('\n')[0]?.replace(/ at line.*$/, '')} (line ${line}, column ${column})`,
      );
    }
    if (document.errors.length === 0) refuseAmbiguity(document, at, report);
    return {
      value: document.errors.length === 0 ? plain(document.contents) : undefined,
      locate: (pointer) => at(offsetOf(document, pointer)),
    };
  });
}

/** Where the contents of JSON text stand: JSON is YAML. */
export function locateJson(text: string): (pointer: string) => Position {
  const documents = readYaml(text, () => {});
  return (pointer) => documents[0]?.locate(pointer) ?? { line: 1, column: 1 };
}

/**
 * What ends a line for YAML 1.1 and not for this reader: behind it, the end of a comment of ours would be a property for kubectl.
 */
const LINE_BREAKS = /\r(?!\n)|[\u0085\u2028\u2029]/g;

function refuseLineBreaks(text: string, at: (offset: number) => Position, report: ErrorReport): void {
  for (const { 0: char, index } of text.matchAll(LINE_BREAKS)) {
    const { line, column } = at(index);
    const escaped = `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`;
    const message = `must have ${quoted(char, true)} as ${escaped} in double quotes: some readers of YAML begin a new line there`;
    report([], 'yaml-line-break', `${message} (line ${line}, column ${column})`);
  }
}

/** Plain words that YAML 1.1 and 1.2 read differently, or that only one of them reads as text. */
const AMBIGUOUS =
  /^(?:y|Y|yes|Yes|YES|n|N|no|No|NO|on|On|ON|off|Off|OFF|<<|=|(?:[-+]_*)?0_*[bBoOxX][0-9a-fA-F_]+|[-+]?0[0-7_]+|(?=[^_]*_)(?:[-+0-9]|\.[0-9])[-+0-9_.eE]*|[-+]?[0-9]+(?::[0-5]?[0-9])+(?:\.[0-9]*)?|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt ].*)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)|\+[0-9.]+)$/;

function refuseAmbiguity(document: Document, at: (offset: number) => Position, report: ErrorReport): void {
  const refuse = (node: Node, rule: string, message: string) => {
    const { line, column } = at(node.range?.[0] ?? 0);
    report([], rule, `${message} (line ${line}, column ${column})`);
  };
  visit(document, {
    Node(_, node) {
      if (isAlias(node) || node.anchor !== undefined) {
        refuse(node, 'yaml-anchor', 'must not use YAML anchors: write the value out where it is needed');
      } else if (node.tag !== undefined) {
        refuse(node, 'yaml-tag', 'must not use YAML tags');
      }
      if (isMap(node)) {
        for (const key of repeatedKeys(node))
          refuse(key, 'duplicate-key', `must not give ${quoted(String(key.value))} twice in one object`);
      }
      if (!isScalar(node) || node.type !== 'PLAIN' || node.source === undefined) return;
      if (AMBIGUOUS.test(node.source) && node.source !== '0') {
        const word = quoted(node.source, true);
        refuse(
          node,
          'yaml-ambiguous',
          `must have ${word} in quotes: some readers of YAML take it for something else`,
        );
      }
    },
    Pair(_, { key }) {
      if (isScalar(key) && typeof key.value !== 'string')
        refuse(key, 'yaml-key', 'must have text as a property name');
      else if (isScalar(key) && key.value === '__proto__')
        refuse(key, 'forbidden-key', 'must not be named __proto__');
      else if (isCollection(key)) refuse(key, 'yaml-key', 'must have text as a property name');
    },
  });
}

/** Keys that were given before in the same map. */
function repeatedKeys(map: YAMLMap): readonly Scalar[] {
  const seen = new Set<unknown>();
  return map.items.flatMap(({ key }) => {
    if (!isScalar(key) || typeof key.value !== 'string') return [];
    const isRepeated = seen.has(key.value);
    seen.add(key.value);
    return isRepeated ? [key] : [];
  });
}

/** The value of a node, without what `toJS` does for aliases and prototypes. */
function plain(node: unknown): unknown {
  if (isMap(node)) {
    const entries = node.items.map(({ key, value }) => [
      isScalar(key) ? String(key.value) : '',
      plain(value),
    ]);
    return Object.fromEntries(entries.filter(([key]) => key !== '__proto__'));
  }
  if (isSeq(node)) return node.items.map(plain);
  return isScalar(node) ? node.value : null;
}

/** Follows a pointer as far as it goes; a property is where its key is. */
function offsetOf(document: Document, pointer: string): number {
  let node: unknown = document.contents;
  let offset = (document.contents as Node | null)?.range?.[0] ?? 0;
  for (const key of tokens(pointer)) {
    if (isMap(node)) {
      const pair = node.items.find((item) => isScalar(item.key) && String(item.key.value) === String(key));
      if (pair === undefined) return offset;
      offset = (pair.key as Node).range?.[0] ?? offset;
      node = pair.value;
    } else if (isSeq(node)) {
      node = node.items[Number(key)];
      if (node === undefined) return offset;
      offset = (node as Node).range?.[0] ?? offset;
    } else return offset;
  }
  return offset;
}

/** The tokens of a JSON pointer. */
export const tokens = (pointer: string): Path =>
  pointer
    .split('/')
    .slice(1)
    .map((token) => token.replaceAll('~1', '/').replaceAll('~0', '~'));
