import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { titlesIn } from './testing/titles.ts';

/** The pages about attackers and leaks name tests, metrics and alerts. These exist, under these names. */

const ROOT = join(import.meta.dirname, '../..');
const read = (path: string) => readFile(join(ROOT, path), 'utf8');

interface Table {
  readonly columns: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

const cellsOf = (line: string) => line.replace(/^\| | \|$/g, '').split(' | ');

/** Tables whose last column names tests. */
async function tablesOf(page: string): Promise<Table[]> {
  const tables = (await read(page)).split(/\n(?!\|)/).flatMap((part) => {
    const lines = part.split('\n').filter((line) => line.startsWith('|'));
    const [head, , ...rows] = lines.map(cellsOf);
    return head === undefined ? [] : [{ columns: head, rows }];
  });
  return tables.filter(({ columns }) => columns.at(-1) === 'Test');
}

/** "`file`: name; `file`: name", after any other text. */
const namedIn = (cell: string) =>
  [...cell.matchAll(/`([^`]+\.test\.ts)`: (.+?)(?=; `|$)/g)].map(([, file = '', name = '']) => ({
    file,
    name,
  }));

describe('the titles of a file of tests', () => {
  it('are the complete names of its tests and groups, and no other text', () => {
    const file = `
      // it('a comment says this', () => {})
      /* test('so does this', () => {}) */
      const text = "it('a text says this')";
      describe.each([['a', 'b']] as const)('of a group: %s', () => {
        it('holds what it holds', () => {});
        test.skipIf(missing)(
          'holds it "elsewhere", too',
          async () => {},
        );
        it.each<[string, object]>([['a row', {}]])(\`a title of parts\`, () => {});
        test.each([
          ['a case that is named by its row', { a: 1 }],
        ])('%s', () => {});
        const each = test.each([1, 2]);
        each('by another name', () => {});
      });`;
    expect(titlesIn(file)).toEqual([
      'a',
      'of a group: %s',
      'holds what it holds',
      'holds it "elsewhere", too',
      'a row',
      'a title of parts',
      'a case that is named by its row',
      '%s',
      'by another name',
    ]);
  });
});

describe.each([
  ['docs/threat-model.md', 80],
  ['docs/leaks.md', 25],
] as const)('%s', (page, least) => {
  it('names for every row a test that is there, or says that nothing proves it', async () => {
    const rows = (await tablesOf(page)).flatMap((table) => table.rows);
    expect(rows.length).toBeGreaterThan(least);
    const missing: string[] = [];
    for (const row of rows) {
      const cell = row.at(-1) ?? '';
      const named = namedIn(cell);
      if (named.length === 0 && !cell.startsWith('nothing ')) missing.push(`no test: ${row[0]}`);
      for (const { file, name } of named)
        if (!titlesIn(await read(file).catch(() => '')).some((title) => title.includes(name)))
          missing.push(`${file}: ${name}`);
    }
    expect(missing).toEqual([]);
  });

  it('names alerts that exist', async () => {
    const rules = await read('charts/space/templates/monitoring.yaml');
    const alerts = (await tablesOf(page)).flatMap(({ columns, rows }) => {
      const at = columns.indexOf('Metric, alert');
      return at < 0 ? [] : rows.flatMap((row) => (row[at] ?? '').match(/\bSpace[A-Z]\w+/g) ?? []);
    });
    if (page === 'docs/threat-model.md') expect(alerts.length).toBeGreaterThan(10);
    expect(alerts.filter((alert) => !rules.includes(`alert: ${alert}\n`))).toEqual([]);
  });
});
