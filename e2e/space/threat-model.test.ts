import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';

/** docs/threat-model.md names tests, metrics and alerts: they are there, under these names. */

const ROOT = join(import.meta.dirname, '../..');
const read = (path: string) => readFile(join(ROOT, path), 'utf8');

/** Rows of tables with a column of tests. */
let rows: string[][];
beforeAll(async () => {
  const text = await read('docs/threat-model.md');
  rows = text
    .split('\n')
    .filter((line) => line.startsWith('|') && line.split(' | ').length === 5 && !line.startsWith('| What |'))
    .filter((line) => !line.startsWith('| --- |'))
    .map((line) => line.replace(/^\| | \|$/g, '').split(' | '));
});

describe('the threat model', () => {
  it('names for every row a test that is there', async () => {
    expect(rows.length).toBeGreaterThan(30);
    const missing: string[] = [];
    for (const row of rows)
      for (const named of (row.at(-1) ?? '').split('; `')) {
        const [, file, name] = /^`?([^`]+)`: (.+)$/.exec(named) ?? [];
        const source = file === undefined ? '' : await read(file).catch(() => '');
        if (name === undefined || !source.includes(name)) missing.push(named);
      }
    expect(missing).toEqual([]);
  });

  it('names alerts that ring', async () => {
    const rules = await read('charts/space/templates/monitoring.yaml');
    const alerts = rows.flatMap((row) => (row[3] ?? '').match(/\bSpace[A-Z]\w+/g) ?? []);
    expect(alerts.length).toBeGreaterThan(10);
    expect(alerts.filter((alert) => !rules.includes(`alert: ${alert}\n`))).toEqual([]);
  });
});
