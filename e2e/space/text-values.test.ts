/** Every text in the values stays the text that it is, whatever YAML would make of it without quotes. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { CHART } from './chart.ts';
import type { KubeObject } from './kube-object.ts';
import { type Helm, startHelm } from './testing/rendered.ts';
import { comparable, embeddedValues, externalValues, type Sort, type Word } from './testing/worded.ts';

let helm: Helm;
beforeAll(async () => {
  helm = await startHelm();
}, 600_000);
afterAll(() => helm?.close());

const DIGEST = `@sha256:${'0123456789abcdef'.repeat(4)}`;
const SPACES = { 'embedded servers': embeddedValues, 'servers of others': externalValues };

async function render(values: object, ...args: readonly string[]): Promise<readonly KubeObject[]> {
  const flags = Object.entries(values).flatMap(([key, value]) => [
    '--set-json',
    `${key}=${JSON.stringify(value)}`,
  ]);
  const { code, stdout, stderr } = await helm.templateBare(...flags, ...args);
  if (code !== 0) throw new Error(stderr);
  // Helm reads YAML 1.1, in which more texts are something else.
  return parseAllDocuments(stdout, { version: '1.1' }).flatMap((document) => {
    expect(document.errors).toEqual([]);
    return document.toJS() ?? [];
  });
}

/** Words that are different from all others, and that nothing but a text can be. */
function plainWords() {
  const given: Sort[] = [];
  const word: Word = (sort) => {
    const text = `plain-${String(given.length).padStart(3, '0')}-word`;
    given.push(sort);
    if (sort === 'host') return `${text}.example.org`;
    return sort === 'image' ? `${text}${DIGEST}` : text;
  };
  return { word, sortOf: (index: number) => given[index] };
}

interface Words {
  readonly name: string;
  readonly text: string;
}

/** The `index`th word of a sort, which YAML without quotes reads as something else. */
function hostile({ name, text }: Words, sort: Sort, index: number): string {
  if (sort === 'host') return `${index}.e5`;
  if (sort === 'image') return `${/^[*&!%]/.exec(text)?.[0] ?? ''}${name}${DIGEST}`;
  if (sort === 'text') return text;
  return sort === 'printable' ? text.replaceAll(' ', '') : name;
}

const WORDS: readonly Words[] = [
  { name: '1e3', text: '*a: b # c' },
  { name: '123', text: '&a' },
  { name: '0x1f', text: '- a' },
  { name: 'true', text: "!a 'b'" },
  { name: 'null', text: '%a' },
  { name: 'y', text: '~' },
  { name: 'off', text: '{a}: [b] c' },
  { name: '2026-11-29', text: '? a' },
];

describe.each(Object.entries(SPACES))('the values of a Space with %s', (_, valuesWith) => {
  it.each(WORDS)('are the same texts in the objects: $name and $text', async (words) => {
    const { word, sortOf } = plainWords();
    const plain = await render(valuesWith(word));
    let count = -1;
    const objects = await render(
      valuesWith((sort) => {
        count += 1;
        return hostile(words, sort, count);
      }),
    );
    const replace = (text: string) =>
      text.replaceAll(/plain-(\d{3})-word(?:\.example\.org|@sha256:[0-9a-f]{64})?/g, (found, index) => {
        const sort = sortOf(Number(index));
        return sort === undefined ? found : hostile(words, sort, Number(index));
      });
    expect(comparable(objects, (text) => text)).toEqual(comparable(plain, replace));
  });

  it('may have lines and quotes where any text is possible', async () => {
    const { word: plain } = plainWords();
    const texts: string[] = [];
    const word = (sort: Sort) => {
      if (sort !== 'text') return plain(sort);
      const text = `${texts.length} "a"\n\n  - 'b': \\c\t# d\n`;
      texts.push(text);
      return text;
    };
    const all = JSON.stringify(await render(valuesWith(word)));
    const inner = (text: string) => JSON.stringify(text).slice(1, -1);
    // In the text of a policy, and in the JSON of a variable, the text is escaped once more.
    const missing = texts.filter(
      (text) => ![text, inner(text), inner(inner(text))].some((one) => all.includes(inner(one))),
    );
    expect(missing).toEqual([]);
  });

  it('are in a namespace of any name', async () => {
    const { word } = plainWords();
    const values = valuesWith(word);
    const [plain, objects] = [await render(values), await render(values, '--namespace', '1e3')];
    const replace = (text: string) => (text === 'home' ? '1e3' : text);
    const places = (all: readonly KubeObject[]) => all.map(({ metadata }) => metadata.namespace);
    expect(places(objects)).toEqual(places(plain).map((place) => place && replace(place)));
    const selected = (all: readonly KubeObject[]) =>
      JSON.stringify(all).match(/"kubernetes.io\/metadata.name":[^,}]+/g);
    expect(selected(objects)).toEqual(selected(plain)?.map((one) => one.replace(/:"home"$/, ':"1e3"')));
  });
});

interface Schema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly enum?: readonly unknown[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly additionalProperties?: Schema | boolean;
  readonly definitions?: Readonly<Record<string, Schema>>;
}

it('every value that is a text is among those of these tests', async () => {
  const schema: Schema = JSON.parse(await readFile(join(CHART, 'values.schema.json'), 'utf8'));
  const all = [embeddedValues, externalValues].map((valuesWith) => valuesWith(plainWords().word));
  const resolve = ({ $ref, ...other }: Schema): Schema =>
    $ref === undefined ? other : (schema.definitions?.[$ref.split('/').at(-1) ?? ''] ?? {});
  function* texts(path: readonly string[], of: Schema): Generator<readonly string[]> {
    const { type, enum: some, properties = {}, items, additionalProperties } = resolve(of);
    if (type?.includes('string') && some === undefined) yield path;
    if (items !== undefined) yield* texts([...path, '*'], items);
    if (typeof additionalProperties === 'object') yield* texts([...path, '*'], additionalProperties);
    const isImage = type?.includes('string');
    for (const [name, value] of Object.entries(isImage ? {} : properties))
      yield* texts([...path, name], value);
  }
  const has = (value: unknown, [first, ...rest]: readonly string[]): boolean => {
    if (first === undefined) return value !== undefined;
    if (typeof value !== 'object' || value === null) return false;
    const inside: Readonly<Record<string, unknown>> = { ...value };
    return first === '*' ? Object.values(inside).some((one) => has(one, rest)) : has(inside[first], rest);
  };
  const paths = [...texts([], schema)];
  expect(paths.length).toBeGreaterThan(100);
  expect(
    paths.filter((path) => !all.some((values) => has(values, path))).map((path) => path.join('.')),
  ).toEqual([]);
});
