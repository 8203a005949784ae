import { expect, test } from 'vitest';
import { closing, fileCircles, folderCircles } from './circles.ts';
import { startingPrograms } from './programs.ts';
import { type Import, importsOf } from './read.ts';
import { forbidden, roomsOf } from './rooms.ts';

const TABLE = `# Architecture

## Rooms

| Folder | Purpose | May import |
| --- | --- | --- |
| \`rules/\` | what \`rules\` mean | none of our folders |
| \`kit/\` | shared | \`rules\` |
| \`kit/contracts/\` | a room within a folder of another | \`rules\`, \`kit\` |
| \`operator/\` | controllers | \`rules\` |
| \`charts/\`, \`crds/\` | no code | – |
| \`bench/\` | figures | anything |

## Names

| \`elsewhere/\` | | anything |
`;
const ROOMS = roomsOf(TABLE);
const EXPORTED = new Map([['@space/kit/custody', 'kit/custody/index.ts']]);

/** What a few files import, written `from > to`. */
const graph = (...edges: readonly string[]): Import[] =>
  edges.map((edge) => {
    const [file = '', target = ''] = edge.split(' > ');
    return { file, line: 1, target, isType: false };
  });

test.each([
  ["import { a } from './b.ts';", 'kit/net/b.ts', 1],
  ["import type { A } from '../b.ts';", 'kit/b.ts', 1],
  ["import {\n  a,\n  type B,\n} from './b.ts';", 'kit/net/b.ts', 4],
  ["export * from './b.ts';", 'kit/net/b.ts', 1],
  ["import './b.ts';", 'kit/net/b.ts', 1],
  ["// why\nconst b = await import('./b.ts');", 'kit/net/b.ts', 2],
  ["import rules from '../../rules/a.json' with { type: 'json' };", 'rules/a.json', 1],
  ["import { custody } from '@space/kit/custody';", 'kit/custody/index.ts', 1],
])('%s is an import of one of our files', (text, target, line) => {
  expect(importsOf('kit/net/a.ts', text, EXPORTED)).toMatchObject([{ file: 'kit/net/a.ts', line, target }]);
});

test('packages of others, and text in a file, are no import', () => {
  const text = "import pg from 'pg';\nconst from = 'from';\n// comes from './b.ts'\n";
  expect(importsOf('kit/a.ts', text, EXPORTED)).toEqual([]);
});

test.each([
  ['operator/a.ts > operator/b/c.ts', 'its own room'],
  ['operator/a.ts > rules/index.ts', 'a room of its row'],
  ['kit/contracts/a.ts > kit/b.ts', 'a room of its row, above it'],
  ['bench/a.ts > operator/testing/space.ts', 'anything'],
  ['operator/a.test.ts > kit/b.ts', 'what it likes, as a test'],
  ['operator/testing/a.ts > kit/b.ts', 'what it likes, for tests'],
  ['kit/dev.ts > operator/b.ts', 'what it likes, for developers'],
])('%s: a file may import %s', (edge) => {
  expect(forbidden(graph(edge), ROOMS)).toEqual([]);
});

test.each([
  ['operator/a.ts > kit/b.ts', 'operator/ may not import kit/ (kit/b.ts)'],
  ['rules/a.ts > operator/b.ts', 'rules/ may not import operator/ (operator/b.ts)'],
  ['kit/a.ts > kit/contracts/b.ts', 'kit/ may not import kit/contracts/ (kit/contracts/b.ts)'],
  ['operator/a.ts > operator/testing/b.ts', 'only tests may import operator/testing/b.ts'],
  ['kit/a.ts > testing/b.ts', 'only tests may import testing/b.ts'],
  ['kit/a.ts > kit/b.test.ts', 'only tests may import kit/b.test.ts'],
  ['kit/a.ts > kitchen/b.ts', 'no row of the table of rooms has kitchen/b.ts'],
  ['kitchen/a.ts > rules/b.ts', 'no row of the table of rooms has this file'],
])('%s is refused', (edge, rule) => {
  expect(forbidden(graph(edge), ROOMS)).toEqual([{ file: edge.split(' > ')[0], line: 1, rule }]);
});

test('a row that does not say what may be imported is an error that names it', () => {
  expect(() => roomsOf(TABLE.replace('none of our folders', 'little'))).toThrow(/rules.*: little/);
  expect(() => roomsOf('# Architecture\n')).toThrow(/no table/);
});

test('files that import each other are a circle, also by a way through others', () => {
  const imports = graph('a/x.ts > a/y.ts', 'a/y.ts > a/b/z.ts', 'a/b/z.ts > a/x.ts', 'a/x.ts > a/w.ts');
  expect(fileCircles(imports).map(({ members }) => members)).toEqual([['a/b/z.ts', 'a/x.ts', 'a/y.ts']]);
  expect(fileCircles(graph('a/x.ts > a/y.ts', 'a/z.ts > a/y.ts'))).toEqual([]);
});

test('folders of one folder that import each other, by whatever files below them, are a circle', () => {
  const imports = graph('r/a/1.ts > r/b/c/2.ts', 'r/b/3.ts > r/c/4.ts', 'r/c/d/5.ts > r/a/e/6.ts');
  expect(folderCircles(imports).map(({ members }) => members)).toEqual([['r/a', 'r/b', 'r/c']]);
});

test.each([
  ['a folder and the files that assemble it', graph('r/a.ts > r/b/1.ts', 'r/b/2.ts > r/c.ts')],
  ['a test of one and the code of another', graph('r/a/1.ts > r/b/2.ts', 'r/b/2.test.ts > r/a/3.ts')],
])('%s are no circle', (_, imports) => {
  expect(folderCircles(imports)).toEqual([]);
});

test('a circle is refused, each of its imports by file and line', () => {
  const files = fileCircles(graph('operator/a.ts > operator/b.ts', 'operator/b.ts > operator/a.ts'));
  expect(closing('files', files)).toEqual([
    'operator/a.ts:1: closes a circle of files by importing operator/b.ts',
    'operator/b.ts:1: closes a circle of files by importing operator/a.ts',
  ]);
  const folders = folderCircles(
    graph('brokers/db/a/1.ts > brokers/db/b/2.ts', 'brokers/db/b/3.ts > brokers/db/a/4.ts'),
  );
  expect(closing('folders', folders)).toEqual([
    'brokers/db/a/1.ts:1: closes a circle of folders by importing brokers/db/b/2.ts',
    'brokers/db/b/3.ts:1: closes a circle of folders by importing brokers/db/a/4.ts',
  ]);
});

test('a test starts programs when it does so itself, or something that it imports by value', () => {
  const sources = new Map([
    ['a/server.ts', "import { spawn } from 'node:child_process';\nimport './a.ts';"],
    ['a/a.ts', "import './server.ts';"],
    ['a/itself.test.ts', "import { execFile, spawn } from 'node:child_process';"],
    ['a/through.test.ts', "import { a } from './a.ts';"],
    ['a/type.test.ts', "import type { Server } from './server.ts';"],
    ['a/text.test.ts', "// starts no 'node:child_process'"],
  ]);
  const starting = [...startingPrograms(sources, EXPORTED)].filter((file) => file.endsWith('.test.ts'));
  expect(starting.sort()).toEqual(['a/itself.test.ts', 'a/through.test.ts']);
});
